"""Layers measured on this machine: what is written is what autograd does, and it can be planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.cli import app
from solver.errors import BadRequest, UnknownName
from solver.plan import Status
from solver.planner import evaluate, plan
from solver.request import PlanRequest, Precision, ProfileBlock
from solver.workload.architecture import (
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    Norm,
    Positions,
)

torch = pytest.importorskip("torch")

from profiler import blocks  # noqa: E402
from profiler.laid import Laid, Setting  # noqa: E402
from profiler.profile import Asked, profiled  # noqa: E402

GROUPED = Attention(4, 2, 16)
SWIGLU = FeedForward(128, gated=True)
LLAMA = Layer(GROUPED, SWIGLU)
LAYERS = {
    "llama": LLAMA,
    "gpt with dropout": Layer(
        Attention(4, 4, 16, query_key_value_bias=True, output_bias=True),
        FeedForward(256, gated=False, activation="gelu", bias=True),
        norm=Norm.LAYER,
        hidden_dropout=0.1,
    ),
    "side by side": Layer(GROUPED, SWIGLU, norms=1, parallel_residual=True),
    "four norms and a window": Layer(
        Attention(4, 2, 16, query_key_norm=True, window=16), SWIGLU, norms=4
    ),
    "experts": Layer(GROUPED, MixtureOfExperts(8, 2, 32, gated=True, shared_hidden=32)),
    "latent attention": Layer(LatentAttention(4, 32, 16, 16, 8, 16), SWIGLU),
    "latent attention, queries whole": Layer(LatentAttention(4, None, 16, 16, 8, 16), SWIGLU),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def model(*layers: tuple[Layer, int], positions: Positions = Positions.ROTARY) -> Architecture:
    return Architecture(
        "tiny", 64, 256, layers or ((LLAMA, 4),), False, positions=positions, max_positions=64
    )


def measured(architecture: Architecture, **changes: Any) -> PlanRequest:
    asked = {
        "sequence_length": 64,
        "micro_batch_size": 2,
        "precision": Precision.FP32,
        "repeats": 1,
        "memory_bytes": 1e9,
    }
    return profiled(Asked(architecture, **(asked | changes))).request


def block(request: PlanRequest, name: str = "layer") -> ProfileBlock:
    assert request.model.profile is not None
    return request.model.profile.blocks[name]


def kept_bytes(part: ProfileBlock) -> float:
    read = {name for op in part.ops for name in op.backward_reads}
    return part.input_bytes + sum(op.output_bytes for op in part.ops if op.name in read)


def kept_by_autograd(laid: Laid, x: Any) -> int:
    """Bytes of the storages that the whole block's forward leaves for its backward."""
    passed = (*laid.constants, *(p for held in laid.parameters.values() for p in held))
    ignored = {tensor.untyped_storage().data_ptr() for tensor in passed}
    made = {"x": x}
    alive: list[Any] = [x]

    def note(tensor: Any) -> Any:
        alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        for op in laid.ops:
            made[op.name] = op.function(*(made[name] for name in op.inputs))
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in alive}
    return sum(one.nbytes() for address, one in storages.items() if address not in ignored)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_keeps_what_autograd_keeps_of_it(name: str) -> None:
    layer = LAYERS[name]
    found = block(measured(model((layer, 4))))
    setting = Setting(64, 64, 2, 1, 1, torch.float32, torch.device("cpu"))
    laid = blocks.layer(layer, Positions.ROTARY, setting)
    x = blocks.hidden_states(setting).requires_grad_()
    assert kept_bytes(found) == pytest.approx(kept_by_autograd(laid, x), rel=0.01)


@pytest.mark.parametrize("name", LAYERS)
def test_every_op_takes_time_and_its_weights_are_a_part_of_its_backward(name: str) -> None:
    for op in block(measured(model((LAYERS[name], 4)))).ops:
        assert op.backward_seconds >= op.weight_seconds >= 0.0
        if not op.name.endswith("_saved"):
            assert op.backward_seconds > 0.0


def test_a_profile_is_planned_exactly_where_memory_is_short() -> None:
    request = measured(model((LLAMA, 8)), pipeline_parallel=2, micro_batches=8)

    def needed(policy: str) -> float:
        document = request.model_dump(exclude_unset=True) | {"recompute": {"policy": policy}}
        return evaluate(PlanRequest.model_validate(document)).peak_memory_bytes

    memory = 0.8 * needed("none") + 0.2 * needed("full")
    document = request.model_dump(exclude_unset=True) | {"cluster": {"memory_bytes": memory}}
    found = plan(PlanRequest.model_validate(document))
    assert found.status is Status.SUCCEEDED
    assert found.gap is not None
    assert found.gap <= 1e-4
    assert any(entry.recomputed for stage in found.stages for entry in stage.recompute)


def test_a_profile_is_planned_with_late_gradients_of_weights() -> None:
    document = measured(model(), pipeline_parallel=2, micro_batches=4).model_dump(
        exclude_unset=True
    )
    document["layout"]["schedule"] = "zb-h1"
    assert plan(PlanRequest.model_validate(document)).status is Status.SUCCEEDED


def test_a_rank_of_two_holds_half_of_the_matrices_and_of_what_they_make() -> None:
    one, two = (
        {op.name: op for op in block(measured(model(), tensor_parallel=size)).ops}
        for size in (1, 2)
    )
    for name in ("query_key", "value", "core_attention", "feed_forward_in"):
        assert two[name].output_bytes == one[name].output_bytes / 2
    assert two["feed_forward_out"].output_bytes == one["feed_forward_out"].output_bytes


def test_a_rank_of_two_holds_half_of_the_experts_and_gets_as_many_tokens() -> None:
    experts = model((LAYERS["experts"], 4))
    one, two = (block(measured(experts, expert_parallel=size)) for size in (1, 2))
    assert two.state_bytes < 0.7 * one.state_bytes
    made = [next(op for op in part.ops if op.name == "expert_in") for part in (one, two)]
    assert made[0].output_bytes == made[1].output_bytes


def test_collectives_stand_where_the_cost_model_has_them() -> None:
    asked = measured(model(), tensor_parallel=2, collectives="H100-SXM5-80GB")
    ops = {op.name: op for op in block(asked).ops}
    assert ops["attention_reduce"].inputs == ["attention_projection"]
    assert ops["attention_residual"].inputs == ["x", "attention_reduce"]
    assert ops["feed_forward_residual"].inputs == ["attention_residual", "feed_forward_reduce"]
    assert ops["attention_reduce"].forward_seconds > 0.0
    assert ops["query_key_value_gather"].backward_seconds > 0.0
    found = plan(asked)
    assert found.status is Status.SUCCEEDED
    assert found.breakdown is not None
    assert found.breakdown.tensor_parallel > 0.0
    assert "embedding_reduce" in [op.name for op in block(asked, "embedding").ops]


def test_experts_far_away_are_reached_by_exchange() -> None:
    experts = model((LAYERS["experts"], 4))
    size = {"expert_parallel": 2, "data_parallel": 2}
    ops = {op.name: op for op in block(measured(experts, **size, collectives="H100-SXM5-80GB")).ops}
    assert ops["expert_in"].inputs == ["expert_dispatch"]
    assert "expert_dispatch" in ops["expert_in"].backward_reads
    assert ops["expert_unpermute"].inputs[0] == "expert_combine"


def test_without_them_a_rank_speaks_to_nobody() -> None:
    assert {op.kind for op in block(measured(model(), tensor_parallel=2)).ops} == {"compute"}


def test_replicas_share_the_state_of_the_optimizer() -> None:
    alone, shared = (block(measured(model(), data_parallel=size)) for size in (1, 8))
    assert alone.state_bytes / 16 == shared.state_bytes / 9  # fp32: 8 + 8 bytes, 8 + 8 / 8 of eight


def test_kinds_of_layer_are_measured_once_and_strung_together() -> None:
    architecture = model((LLAMA, 1), (LAYERS["experts"], 3), (LLAMA, 2))
    profile = measured(architecture, layers=5).model.profile
    assert profile is not None
    assert profile.sequence == [
        ("embedding", 1),
        ("layer_1", 1),
        ("layer_2", 3),
        ("layer_1", 1),
        ("head", 1),
    ]


@pytest.mark.parametrize("positions", list(Positions))
def test_positions_of_every_sort_are_measured(positions: Positions) -> None:
    request = measured(model(positions=positions))
    names = [op.name for op in block(request).ops]
    assert block(request, "embedding").ops[0].name == "embedding_rows"
    assert ("rotary" in names) == (positions is Positions.ROTARY)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(BadRequest, match="fp8"):
        measured(model(), precision=Precision.FP8)
    with pytest.raises(BadRequest, match="cannot use a device") as refused:
        measured(model(), device="abacus")
    assert refused.value.field == "device"
    with pytest.raises(UnknownName) as unknown:
        measured(model(), collectives="abacus")
    assert unknown.value.field == "collectives"


def test_the_command_writes_a_request_that_plan_reads(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": 256,
        "max_position_embeddings": 64,
    }
    config.write_text(json.dumps({"model_type": "llama"} | sizes))
    request = tmp_path / "request.json"
    words = ["profile", "--model", str(config), "--sequence-length", "32", "--repeats", "1"]
    done = CliRunner().invoke(app, [*words, "--precision", "fp32", "--out", str(request)])
    assert done.exit_code == 0, done.output
    assert "1 embedding, 4 layer, 1 head, measured on cpu" in done.output
    planned = CliRunner().invoke(app, ["plan", str(request), "--json"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["status"] == "succeeded"


def test_without_pytorch_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.profiling.find_spec", lambda _: None)
    done = CliRunner().invoke(app, ["profile", "--model", "llama-3.1-8b"])
    assert done.exit_code == 3
    assert "stagecut[torch]" in done.output


def test_an_unknown_model_is_refused_with_close_names() -> None:
    done = CliRunner().invoke(app, ["profile", "--model", "lama-3.1-8b"])
    assert done.exit_code == 2
    assert "llama-3.1-8b" in done.output
