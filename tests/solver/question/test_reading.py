"""What a request asks: what cannot be answered is refused before anything is solved."""

from __future__ import annotations

from typing import Any

import pytest

from solver.errors import BadRequest
from solver.layouts import Layout
from solver.question import Question, question
from solver.request import Overlap, PlanRequest, RankOrder, Target
from tests.solver.requests import HAND

NAMED: dict[str, Any] = {
    "model": {"name": "llama-3.1-8b"},
    "cluster": {"device": "H100-SXM5-80GB", "nodes": 1, "devices_per_node": 8},
    "training": {"sequence_length": 8192, "global_batch_size": 64},
}


def asked(base: dict[str, Any], **parts: dict[str, Any]) -> PlanRequest:
    """The request with fields of its parts replaced."""
    changed = {name: {**base.get(name, {}), **part} for name, part in parts.items()}
    return PlanRequest.model_validate({**base, **changed})


@pytest.mark.parametrize("base", [HAND, NAMED], ids=["profile", "named"])
@pytest.mark.parametrize(
    ("recompute", "field"),
    [
        ({"policy": "block"}, "recompute.num_layers"),
        ({"policy": "uniform", "num_layers": 0}, "recompute.num_layers"),
        ({"policy": "selective", "modules": ["nonsense"]}, "recompute.modules[0]"),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused_with_its_field(
    base: dict[str, Any], recompute: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadRequest) as error:
        question(asked(base, recompute=recompute))
    assert (error.value.field, bool(error.value.hint)) == (field, True)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"solver": {"granularity": "half"}}, "solver.granularity"),
        ({"cluster": {"device": "H1000"}}, "cluster.device"),
        ({"layout": {"virtual_stages": 2, "schedule": "gpipe"}}, "layout.schedule"),
        ({"layout": {"virtual_stages": 2, "interleaving_group": 1}}, "layout.interleaving_group"),
    ],
)
def test_what_a_profile_cannot_mean_is_refused_with_its_field(
    parts: dict[str, dict[str, Any]], field: str
) -> None:
    with pytest.raises(BadRequest) as error:
        question(asked(HAND, **parts))
    assert (error.value.field, bool(error.value.hint)) == (field, True)


def test_a_profile_with_virtual_stages_is_asked_on_every_number_of_devices_that_suits() -> None:
    request = asked(
        HAND,
        cluster={"nodes": 1, "devices_per_node": 8},
        training={"global_batch_size": 4},
        layout={"pipeline_parallel": None, "virtual_stages": 2},
    )
    assert [layout.pipeline_parallel for layout in question(request).layouts] == [2]


def test_a_network_that_could_not_be_read_is_said() -> None:
    def notes(**cluster: str | float) -> list[str]:
        return question(asked(NAMED, cluster=cluster)).notes

    assert "cluster.fabric" in notes(fabric="some very fast cables")[0]
    assert not notes()
    assert not notes(fabric="400 Gb/s per GPU")
    assert not notes(fabric="some very fast cables", inter_node_bytes_per_second=5e10)


@pytest.mark.parametrize(
    ("framework", "said"),
    [("megatron-lm", "recomputes on demand"), ("mindspeed", "--recompute-in-advance")],
)
def test_a_framework_recomputes_where_it_can_and_the_answer_says_so(
    framework: str, said: str
) -> None:
    target = {"framework": framework}
    (note,) = [n for n in question(asked(NAMED, target=target)).notes if "overlap" in n]
    assert note.startswith("recompute.overlap is off")
    assert said in note
    with pytest.raises(BadRequest, match=said) as error:
        question(asked(NAMED, target=target, recompute={"overlap": "stalls"}))
    assert error.value.field == "recompute.overlap"


def test_mindspeed_recomputes_in_advance_where_every_chunk_holds_one_layer() -> None:
    """Left open it is then `stalls`; `off` leaves them out, and anything else is refused."""

    def read(layout: dict[str, int], **recompute: str) -> Question:
        document = asked(NAMED, layout=layout, recompute=recompute)
        target = Target(framework="mindspeed")
        return question(document.model_copy(update={"target": target}), to_plan=True)

    layers = {"tensor_parallel": 1, "pipeline_parallel": 4, "virtual_stages": 8}
    found = read(layers)
    assert found.request.recompute.overlap is Overlap.STALLS
    assert any(note.startswith("recompute.overlap is stalls") for note in found.notes)
    assert read(layers, overlap="stalls").request.recompute.overlap is Overlap.STALLS
    assert read(layers, overlap="off").request.recompute.overlap is Overlap.OFF
    assert read({**layers, "virtual_stages": 4}).request.recompute.overlap is None
    with pytest.raises(BadRequest, match="one layer"):
        read({**layers, "virtual_stages": 4}, overlap="stalls")
    with pytest.raises(BadRequest, match="recompute-in-advance"):
        read(layers, overlap="all")


@pytest.mark.parametrize("recompute", [{"overlap": "off"}, {"policy": "full"}])
def test_nothing_is_said_of_overlap_where_the_request_leaves_none_open(
    recompute: dict[str, Any],
) -> None:
    found = question(asked(NAMED, target={"framework": "megatron-lm"}, recompute=recompute))
    assert not any("overlap" in note for note in found.notes)


def planned_for(framework: str, **layout: Any) -> set[Layout]:
    """The layouts that a plan for a framework considers on two nodes with oversubscribed leafs."""
    cluster = {"nodes": 4, "switches": [{"nodes": 1, "oversubscription": 8}]}
    document = asked(NAMED, cluster=cluster, layout={"tensor_parallel": 2, **layout})
    request = document.model_copy(update={"target": Target(framework=framework)})
    return {family.member(0) for family in question(request, to_plan=True).families}


def test_a_plan_for_a_framework_considers_each_rank_order_that_might_be_better() -> None:
    orders = {layout.rank_order for layout in planned_for("megatron-lm")}
    assert orders == {order.value for order in RankOrder}
    for layout in planned_for("megatron-lm"):
        if layout.rank_order == RankOrder.PIPELINE_INSIDE:
            assert layout.pipeline_parallel * layout.tensor_parallel <= 8
    assert {layout.rank_order for layout in planned_for("colossalai")} == orders
    assert {layout.rank_order for layout in planned_for("torchtitan")} == {"tp-cp-ep-dp-pp"}
    fixed = planned_for("megatron-lm", rank_order="tp-cp-ep-dp-pp")
    assert fixed == {
        one for one in planned_for("megatron-lm") if one.rank_order == "tp-cp-ep-dp-pp"
    }


@pytest.mark.parametrize(
    ("framework", "methods"),
    [
        ("megatron-lm", {"ring", "all-gather", "all-to-all"}),
        ("torchtitan", {"ring", "all-gather"}),
        ("mindspeed", {"ring", "all-to-all"}),
        ("mindformers", {"ring"}),
    ],
)
def test_a_plan_for_a_framework_considers_the_exchanges_that_it_has(
    framework: str, methods: set[str]
) -> None:
    split = planned_for(framework, context_parallel=2, sequence_parallel=True)
    assert {layout.context_method for layout in split} == methods
    alone = planned_for(framework, context_parallel=1, sequence_parallel=True)
    assert {layout.context_method for layout in alone} == {"ring"}
