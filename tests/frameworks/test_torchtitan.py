"""What is written for torchtitan, read by its own configuration and its splitting of models."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from solver.costs.pipeline import Block
from solver.question import only_layout, question
from solver.targets.registry import TARGETS
from solver.targets.torchtitan_policies import attention_saved, every_second_product_saved
from solver.targets.written import planned, written
from tests.solver.targets.plans import (
    expected_layers,
    interleaved,
    interleaved_layers,
    made,
    request,
    text_of,
)

pipelines = pytest.importorskip(
    "torchtitan.distributed.pipeline_parallel", reason="needs torchtitan: make frameworks"
)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.pipelining.schedules import (  # noqa: E402
    PipelineScheduleMulti,
    get_schedule_class,
)
from torch.utils.checkpoint import CheckpointPolicy  # noqa: E402
from torchtitan.config.configs import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import activation_checkpoint  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402


def applied(text: str) -> Any:
    """The parts of a Trainer.Config that a plan sets; a field that is not there is an error."""
    config = SimpleNamespace(
        parallelism=ParallelismConfig(), training=TrainingConfig(), activation_checkpoint=...
    )
    space: dict[str, Any] = {}
    exec(text, space)
    return space["apply"](config)


class Model(nn.Module):
    """The modules of torchtitan's models, by their names."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(4, 2)
        self.layers = nn.ModuleDict({str(number): nn.Linear(2, 2) for number in range(layers)})
        self.norm = nn.LayerNorm(2)
        self.lm_head = nn.Linear(2, 4)


def check_split(parallelism: Any, devices: int, layers: list[int]) -> None:
    parts = parallelism.module_fqns_per_model_part
    whole = Model(sum(layers))
    stages = [pipelines._split_module(whole, names) for names in parts]
    assert [len(stage.layers) for stage in stages] == layers
    numbers = [name for stage in stages for name in stage.layers]
    assert numbers == [str(number) for number in range(sum(layers))]
    for number, stage in enumerate(stages):
        assert (stage.tok_embeddings is not None) == (number == 0)
        assert (stage.lm_head is not None) == (number == len(stages) - 1)
    for device in range(devices):
        held = pipelines._get_pp_rank_to_stage_indices_mapping(
            device, devices, parallelism.pipeline_parallel_schedule, len(stages)
        )
        assert held == tuple(range(device, len(stages), devices))


def test_a_plan_is_accepted_and_splits_the_model_as_planned() -> None:
    config = applied(text_of("torchtitan"))
    check_split(config.parallelism, 4, expected_layers("torchtitan"))


def test_several_chunks_of_a_device_are_split_as_planned() -> None:
    config = applied(written(interleaved(), "torchtitan").text)
    assert issubclass(
        get_schedule_class(config.parallelism.pipeline_parallel_schedule), PipelineScheduleMulti
    )
    check_split(config.parallelism, 2, interleaved_layers())


def test_sizes_batches_and_policy_are_those_of_the_plan() -> None:
    config, plan = applied(text_of("torchtitan")), made("torchtitan")
    layout = plan.layout
    assert layout is not None
    assert plan.restriction is not None
    devices = planned(plan, "torchtitan", request("torchtitan").training).devices
    ParallelDims.from_config(config.parallelism, devices)
    get_schedule_class(config.parallelism.pipeline_parallel_schedule)
    size = config.parallelism.pipeline_parallel_microbatch_size
    assert size == layout.micro_batch_size
    assert config.training.local_batch_size // size == plan.micro_batches
    assert config.training.global_batch_size == 32
    assert config.training.seq_len == 4096
    assert config.activation_checkpoint is not None


POLICIES: dict[str, dict[str, object]] = {
    "FullAC": {"activation_checkpoint": "FullAC"},
    "SelectiveAC": {"activation_checkpoint": "SelectiveAC"},
    "AttentionSaved": {"activation_checkpoint": "SelectiveAC", "save": "attention"},
    "EveryNth": {"activation_checkpoint": "FullAC", "every": 3},
}


def policy_of(setting: dict[str, object] | None) -> Any:
    """The policy that a plan with this setting has written, built by torchtitan."""
    asked = planned(interleaved(), "torchtitan")
    export = TARGETS["torchtitan"].export(replace(asked, setting=setting))
    config = applied(export.text).activation_checkpoint
    return None if config is None else config.build()


class Layer(nn.Module):
    """A layer with the products of torchtitan's in their order; its real ones need a GPU."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"wqkv": (16, 48), "wo": (16, 17), "w1": (17, 20), "w3": (17, 21), "w2": (20, 16)}
        self.products = nn.ModuleDict({n: nn.Linear(*s, bias=False) for n, s in sizes.items()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.products["wqkv"](x).unflatten(-1, (3, 1, 16)).unbind(-3)
        heads = (part.transpose(0, 1)[None] for part in (query, key, value))
        mixed = nn.functional.scaled_dot_product_attention(*heads)[0].transpose(0, 1).flatten(-2)
        wide = self.products["wo"](mixed)
        gate, up = self.products["w1"](wide), self.products["w3"](wide)
        return x + self.products["w2"](torch.nn.functional.silu(gate) * up[..., :20])


def saved_by(policy: Any, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The products, and "attention", whose outputs a policy saves in a layer's forward."""
    layer, saved = Layer(), set()
    names = {tuple(part.weight.T.shape): name for name, part in layer.products.items()}
    contexts = activation_checkpoint.create_selective_checkpoint_contexts

    def watched(decide: Any) -> Any:
        def deciding(ctx: Any, op: Any, *args: Any, **more: Any) -> Any:
            found = decide(ctx, op, *args, **more)
            if found is CheckpointPolicy.MUST_SAVE and not ctx.is_recompute:
                if op is torch.ops.aten.mm.default:
                    saved.add(names[tuple(args[1].shape)])
                elif "attention" in str(op):
                    saved.add("attention")
            return found

        return contexts(deciding)

    monkeypatch.setattr(activation_checkpoint, "create_selective_checkpoint_contexts", watched)
    out = policy._wrap_block(layer)(torch.randn(4, 16, requires_grad=True))
    out.sum().backward()
    assert all(part.weight.grad is not None for part in layer.products.values())
    return saved


def test_every_second_product_is_saved_as_the_cost_of_selective_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = saved_by(policy_of(POLICIES["SelectiveAC"]), monkeypatch)
    assert found - {"attention"} == {"wqkv", "w1", "w2"}, "attention has another kernel on a CPU"
    choice = every_second_product_saved(llama_layer(), scatters=False)
    assert {"query_key", "value", "core_attention"}.isdisjoint(choice.recomputed)
    assert "attention_projection" in choice.recomputed
    whole = {"query_key": 1.0, "feed_forward_out": 1.0}
    assert dict(choice.shares) == whole | {"feed_forward_in": 0.5}, "rotary is made again"


def test_only_attention_is_saved_as_its_cost_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert saved_by(policy_of(POLICIES["AttentionSaved"]), monkeypatch) == {"attention"}
    block = llama_layer()
    choice = attention_saved(block)
    rest = [op.name for op in block.ops if op.inputs and op.name != "core_attention"]
    assert list(choice.recomputed) == rest
    assert block.rerun_seconds is not None
    attention = next(op for op in block.ops if op.name == "core_attention")
    assert choice.seconds == pytest.approx(block.rerun_seconds - attention.forward_seconds)


def llama_layer() -> Block:
    asked = question(request("torchtitan"))
    blocks = asked.costs(only_layout(asked)).blocks
    return next(block for block in blocks if block.name == "layer")


def test_every_third_layer_of_a_stage_is_wrapped() -> None:
    model = Model(8)
    policy_of(POLICIES["EveryNth"]).apply(model)
    wrapped = [type(layer).__name__ == "CheckpointWrapper" for layer in model.layers.values()]
    assert wrapped == [False, False, True, False, False, True, False, False]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_one_of_torchtitans(name: str) -> None:
    policy = policy_of(POLICIES[name])
    assert isinstance(policy, activation_checkpoint.ActivationCheckpointing)
    assert type(policy).__name__ == name
