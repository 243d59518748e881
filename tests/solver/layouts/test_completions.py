"""The legal completions of a request: complete, legal, ordered, and quick to list."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.cluster.cluster import Cluster, cluster_from_request
from solver.errors import IllegalLayout
from solver.layouts import Layout, check, layouts
from solver.layouts.setting import divisors
from solver.request import Cluster as ClusterRequest
from solver.request import LayoutRequest, Training
from solver.workload.catalogue import architecture
from solver.workload.huggingface import architecture_from_huggingface
from tests.pace import pace
from tests.solver.published import published_requests


def a100(nodes: int, per_node: int = 8) -> Cluster:
    return cluster_from_request(
        ClusterRequest(device="A100-SXM4-80GB", nodes=nodes, devices_per_node=per_node)
    )


def run(batch: int = 64, length: int = 2048) -> Training:
    return Training(sequence_length=length, global_batch_size=batch)


def test_every_published_layout_is_legal_and_its_own_only_completion() -> None:
    for request in published_requests():
        assert request.model.huggingface is not None
        model = architecture_from_huggingface(request.model.huggingface)
        cluster = cluster_from_request(request.cluster)
        (only,) = layouts(request.layout, model, cluster, request.training)
        assert only.tensor_parallel == request.layout.tensor_parallel
        assert only.sequence_parallel == request.layout.sequence_parallel
        assert only.devices == cluster.devices


def test_a_free_layout_is_every_legal_one_that_occupies_all_devices() -> None:
    model, cluster, training = architecture("gpt-2"), a100(2), run(batch=48)
    found = layouts(LayoutRequest(), model, cluster, training)
    expected = []
    for tensor, pipeline, data, size in product(
        range(1, 9), range(1, 17), range(1, 17), range(1, 49)
    ):
        layout = Layout(tensor, pipeline, 1, 1, data, 1, size, tensor > 1, 1, "1f1b")
        if layout.devices != 16:
            continue
        try:
            check(layout, model, cluster, training)
        except IllegalLayout:
            continue
        expected.append(layout)
    assert found == sorted(expected)
    assert len(found) > 20


def test_fixed_fields_are_kept() -> None:
    asked = LayoutRequest(pipeline_parallel=4, micro_batch_size=2, zero_stage=0)
    found = layouts(asked, architecture("llama-3.1-8b"), a100(8), run())
    assert found
    for layout in found:
        assert (layout.pipeline_parallel, layout.micro_batch_size, layout.zero_stage) == (4, 2, 0)
        assert layout.devices == 64


def test_what_is_not_searched_takes_its_default() -> None:
    for layout in layouts(LayoutRequest(), architecture("llama-3.1-8b"), a100(2), run()):
        assert (layout.context_parallel, layout.expert_parallel, layout.virtual_stages) == (1, 1, 1)
        assert (layout.zero_stage, layout.schedule) == (1, "1f1b")
        assert layout.sequence_parallel is (layout.tensor_parallel > 1)


def test_sequence_parallel_is_left_off_where_the_sequence_does_not_divide() -> None:
    asked = LayoutRequest(tensor_parallel=4)
    for layout in layouts(asked, architecture("llama-3.1-8b"), a100(1), run(length=2046)):
        assert not layout.sequence_parallel


def test_tensor_parallel_beyond_the_fast_domain_is_legal_but_never_proposed() -> None:
    model = architecture("gpt-3-175b")
    free = layouts(LayoutRequest(), model, a100(8), run())
    assert max(layout.tensor_parallel for layout in free) == 8
    fixed = layouts(LayoutRequest(tensor_parallel=16), model, a100(8), run())
    assert {layout.tensor_parallel for layout in fixed} == {16}


def test_data_parallel_is_what_remains() -> None:
    asked = LayoutRequest(tensor_parallel=8, pipeline_parallel=4, micro_batch_size=1)
    (only,) = layouts(asked, architecture("gpt-3-175b"), a100(8), run())
    assert only.data_parallel == 2


def test_the_last_free_size_takes_the_remaining_devices() -> None:
    model = architecture("gpt-3-175b")
    for layout in layouts(LayoutRequest(data_parallel=4), model, a100(8), run()):
        assert layout.devices == 64
    asked = LayoutRequest(data_parallel=4, pipeline_parallel=8)
    assert {one.tensor_parallel for one in layouts(asked, model, a100(8), run())} == {2}
    asked = LayoutRequest(data_parallel=4, tensor_parallel=8)
    assert {one.pipeline_parallel for one in layouts(asked, model, a100(8), run())} == {2}


def test_a_wholly_fixed_layout_may_leave_devices_unused() -> None:
    asked = LayoutRequest(
        tensor_parallel=8, pipeline_parallel=4, data_parallel=1, micro_batch_size=1
    )
    (only,) = layouts(asked, architecture("gpt-3-175b"), a100(8), run())
    assert only.devices == 32


@pytest.mark.parametrize(
    ("asked", "training", "field", "hint"),
    [
        ({"tensor_parallel": 7}, run(), "layout.tensor_parallel", "Nearest legal values: 4 or 8."),
        ({"pipeline_parallel": 48}, run(), "layout.pipeline_parallel",
         "Nearest legal values: 32 or 64."),
        ({"tensor_parallel": 8, "pipeline_parallel": 4}, run(batch=25),
         "training.global_batch_size", "Nearest legal values: 24 or 26."),
        ({"micro_batch_size": 7}, run(), "layout.micro_batch_size",
         "Nearest legal value"),
        ({"expert_parallel": 2}, run(), "layout.expert_parallel", "Nearest legal value: 1."),
        ({"sequence_parallel": True}, run(length=2047), "layout.sequence_parallel",
         "Nearest legal value: false."),
        ({"data_parallel": 999_999}, run(), "layout.data_parallel",
         "Nearest legal value: 64."),
    ],
)  # fmt: skip
def test_without_a_legal_completion_the_error_names_what_to_change(
    asked: dict[str, Any], training: Training, field: str, hint: str
) -> None:
    with pytest.raises(IllegalLayout) as error:
        layouts(LayoutRequest(**asked), architecture("gpt-3-175b"), a100(8), training)
    assert error.value.field == field
    assert error.value.hint is not None
    assert error.value.hint.startswith(hint)


def test_a_size_that_the_fixed_ones_force_is_explained() -> None:
    asked = LayoutRequest(pipeline_parallel=1, data_parallel=1)
    with pytest.raises(IllegalLayout) as error:
        layouts(asked, architecture("gpt-3-175b"), a100(8), run())
    assert error.value.field == "layout.pipeline_parallel"
    assert error.value.detail.startswith("With what is given, tensor_parallel has to be 64.")


def test_listing_the_layouts_of_gpt3_on_1024_devices_takes_less_than_50_milliseconds() -> None:
    model, cluster, training = architecture("gpt-3-175b"), a100(128), run(batch=1536)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        found = layouts(LayoutRequest(), model, cluster, training)
        best = min(best, time.process_time() - start)
    assert len(found) > 100
    assert best < 0.05 * pace()


SIZES = st.none() | st.sampled_from([1, 2, 3, 4, 6, 8, 16, 64])


@settings(max_examples=200, deadline=None)
@given(
    asked=st.builds(
        LayoutRequest,
        tensor_parallel=SIZES,
        pipeline_parallel=SIZES,
        context_parallel=SIZES,
        expert_parallel=SIZES,
        data_parallel=SIZES,
        virtual_stages=SIZES,
        micro_batch_size=SIZES,
        sequence_parallel=st.none() | st.booleans(),
        zero_stage=st.none() | st.integers(0, 3),
    ),
    model=st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "gpt-2-xl"]),
    nodes=st.sampled_from([1, 2, 3, 8]),
    per_node=st.sampled_from([1, 6, 8]),
    batch=st.integers(1, 200),
)
def test_completions_are_legal_keep_what_is_fixed_and_come_in_order(
    asked: LayoutRequest, model: str, nodes: int, per_node: int, batch: int
) -> None:
    cluster, training = a100(nodes, per_node), run(batch=batch)
    try:
        found = layouts(asked, architecture(model), cluster, training)
    except IllegalLayout as error:
        found = []
        named = error.field
    else:
        named = "layout."
    assert named is not None
    assert named.startswith(("layout.", "training.global_batch_size"))
    assert found == sorted(set(found))
    for layout in found:
        check(layout, architecture(model), cluster, training)
        for name, value in asked.model_dump().items():
            assert value is None or getattr(layout, name) == value


@given(st.integers(1, 5000))
def test_divisors_are_all_and_ascending(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]
