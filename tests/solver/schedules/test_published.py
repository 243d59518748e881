"""What the papers say of their schedules: idle time and memory when all stages are alike."""

from __future__ import annotations

import itertools
import types

import numpy as np
import pytest

from solver.schedules import (
    Chimera,
    OneForwardOneBackward,
    Schedule,
    StageTimes,
    Work,
    ZeroBubbleH1,
    ZeroBubbleV,
    schedule_graph,
    simulate,
)
from solver.schedules.moments import moments
from solver.verify_orders import order_of
from tests.solver.schedules.reference import SCHEDULES

SIZES = [(1, 4), (2, 2), (4, 4), (4, 16), (8, 8), (8, 32)]
TIMES = [(1.0, 1.0, 1.0), (1.0, 1.5, 0.5), (2.0, 1.0, 1.0), (1.0, 1.0, 0.25)]


def bubble(schedule: Schedule, forward: float, backward: float, weight: float = 0.0) -> float:
    """The makespan beyond the work of one device."""
    stages = schedule.stages
    times = StageTimes.of([forward] * stages, [backward] * stages, weight=[weight] * stages)
    work = schedule.micro_batches * (forward + backward + weight) * stages / schedule.devices
    if isinstance(schedule, Chimera):
        work /= 2  # a micro-batch passes one of the two copies
    return float(simulate(schedule_graph(schedule), times).makespan[0]) - work


@pytest.mark.parametrize(("devices", "n"), SIZES)
@pytest.mark.parametrize(("forward", "backward", "weight"), TIMES)
def test_zb_h1_leaves_out_the_gradients_of_weights_from_the_bubble_of_1f1b(
    devices: int, n: int, forward: float, backward: float, weight: float
) -> None:
    """Qi et al. 2023, table 2: (p - 1) (T_F + T_B - T_W) against (p - 1) (T_F + T_B)."""
    if weight > backward:
        return
    apart = bubble(ZeroBubbleH1(devices, n), forward, backward, weight)
    together = bubble(OneForwardOneBackward(devices, n), forward, backward + weight)
    assert apart == pytest.approx((devices - 1) * (forward + backward - weight))
    assert together == pytest.approx((devices - 1) * (forward + backward + weight))


@pytest.mark.parametrize(("devices", "n"), [(1, 3), (2, 3), (4, 8), (8, 16), (8, 40)])
def test_zb_v_has_no_bubble_when_all_passes_last_equally_long(devices: int, n: int) -> None:
    """Qi et al., arXiv 2405.15362: from its first to its last task no device is idle."""
    schedule = ZeroBubbleV(devices, n)
    ones = [1.0] * schedule.stages
    simulation = simulate(schedule_graph(schedule), StageTimes.of(ones, ones, weight=ones))
    graph = simulation.graph
    device = np.array([schedule.device(int(stage)) for stage in graph.tasks[:, 1]])
    ends = simulation.ends[: graph.nodes, 0]
    for one in range(devices):
        mine = ends[device == one]
        assert mine.max() - (mine.min() - 1.0) == len(mine)


def peak(schedule: Schedule, device: int, kept: float, waiting: float) -> float:
    return max(
        kept * sum(moment.alive) + waiting * sum(moment.waiting)
        for moment in moments(schedule, device)
    )


@pytest.mark.parametrize(("devices", "n"), [(2, 4), (4, 16), (8, 32)])
def test_zb_h1_needs_the_memory_of_1f1b(devices: int, n: int) -> None:
    """Qi et al. 2023: p M_B at most, where M_W, what waits, is no more than M_B."""
    for waiting in (0.25, 1.0):
        peaks = [peak(ZeroBubbleH1(devices, n), d, 1.0, waiting) for d in range(devices)]
        assert max(peaks) == devices == peak(OneForwardOneBackward(devices, n), 0, 1.0, 0.0)


@pytest.mark.parametrize(("devices", "n"), [(2, 4), (4, 16), (8, 32)])
def test_zb_v_needs_the_memory_of_1f1b_on_every_device(devices: int, n: int) -> None:
    """Qi et al., arXiv 2405.15362: 2 p chunks, each half a stage, at most."""
    for waiting in (0.25, 1.0):
        peaks = [peak(ZeroBubbleV(devices, n), d, 0.5, 0.5 * waiting) for d in range(devices)]
        assert max(peaks) == devices
        assert min(peaks) >= devices - 0.5


@pytest.mark.parametrize("devices", [2, 4, 8, 16])
def test_chimera_halves_the_bubble_of_1f1b_in_a_unit(devices: int) -> None:
    """Li and Hoefler 2021, table 2: 2 (p - 2) forwards' time where a backward lasts two."""
    for backward in (1.0, 2.0):
        found = bubble(Chimera(devices, devices), 1.0, backward)
        assert found == pytest.approx((devices - 2) * backward)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_chimera_holds_between_half_and_all_of_the_micro_batches_in_the_pipeline(
    devices: int,
) -> None:
    """Li and Hoefler 2021: activations of p / 2 + 1 to p micro-batches."""
    schedule = Chimera(devices, 4 * devices)
    for device in range(devices):
        assert devices / 2 + 1 <= peak(schedule, device, 1.0, 0.0) + 1e-9 or devices == 2
        assert peak(schedule, device, 1.0, 0.0) <= devices


def test_orders_are_those_that_the_check_has_written_out_for_itself() -> None:
    letters = {Work.FORWARD: "F", Work.BACKWARD: "B", Work.WEIGHT: "W"}
    for schedule in SCHEDULES:
        if schedule.name == "every-work":
            continue
        name = "1f1b" if schedule.name == "interleaved" else schedule.name
        group = getattr(schedule, "group", 0)
        for device in range(schedule.devices):
            written = order_of(
                name,
                device,
                schedule.devices,
                schedule.virtual_stages,
                schedule.micro_batches,
                group,
            )
            order = schedule.order(device).tolist()
            assert [(letters[Work(w)], s, m) for w, s, m in order] == written


@pytest.mark.slow
def test_zb_v_runs_in_the_order_of_pytorch() -> None:
    """``ScheduleZBVZeroBubble`` of torch.distributed.pipelining, by its own calculation."""
    pytorch = pytest.importorskip("torch.distributed.pipelining.schedules")
    kinds = {pytorch.F: Work.FORWARD, pytorch.I: Work.BACKWARD, pytorch.W: Work.WEIGHT}
    for devices, n in itertools.product((1, 2, 4, 5), (1, 2, 7, 12)):
        for device in range(devices):
            pipeline = types.SimpleNamespace(
                pp_group_size=devices, _n_microbatches=n, num_stages=2 * devices
            )
            actions = pytorch.ScheduleZBVZeroBubble._calculate_single_rank_operations(
                pipeline, device
            )
            expected = [
                [kinds[a.computation_type], a.stage_index, a.microbatch_index]
                for a in actions
                if a is not None
            ]
            assert ZeroBubbleV(devices, n).order(device).tolist() == expected
