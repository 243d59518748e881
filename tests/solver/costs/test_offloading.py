"""How much of a block may wait in host memory, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solver.costs.offloading import hidden_bytes, offloading
from solver.costs.pipeline import Block, Host, Op, OpKind, PipelineCosts
from solver.schedules import make_schedule

COMPUTE = Op("product", ("x",), 2.0, 3.0, 10.0, ("x", "product"))
COLLECTIVE = Op("reduce", ("product",), 5.0, 5.0, 4.0, (), OpKind.COMMUNICATION)
BLOCK = Block("layer", (COMPUTE, COLLECTIVE), 6.0)


def costs(host: Host | None, blocks: int = 4) -> PipelineCosts:
    return PipelineCosts((BLOCK,), (0,) * blocks, 8, 100.0, host=host)


def test_the_link_is_used_while_compute_runs_and_left_to_collectives() -> None:
    assert hidden_bytes(BLOCK, Host(3.0, 1e9)) == 2.0 * 3.0


def test_the_shorter_of_forward_and_backward_counts() -> None:
    quick = replace(BLOCK, ops=(replace(COMPUTE, backward_seconds=0.5), COLLECTIVE))
    assert hidden_bytes(quick, Host(3.0, 1e9)) == 0.5 * 3.0


def test_no_more_than_its_input_and_what_is_needed_leaves() -> None:
    assert hidden_bytes(BLOCK, Host(1e9, 1e9)) == 6.0 + 10.0


def test_blocks_that_frameworks_do_not_touch_offload_nothing() -> None:
    assert hidden_bytes(replace(BLOCK, checkpointable=False), Host(3.0, 1e9)) == 0.0


def test_every_device_stages_three_blocks() -> None:
    moved = offloading(costs(Host(3.0, 1e9)), make_schedule("1f1b", 2, 8))
    assert moved is not None
    assert moved.offload_bytes == (6.0,)
    assert moved.staging_bytes == moved.reserved_bytes == 18.0


def test_where_the_host_has_no_room_for_everything_stages_hold_fewer_layers() -> None:
    """Four blocks of 6 bytes, two micro-batches in flight at most: 48 bytes if on one stage."""
    ample = offloading(costs(Host(3.0, 48.0)), make_schedule("1f1b", 2, 8))
    assert ample is not None
    assert (ample.offload_bytes, ample.offload_layers) == ((6.0,), 0)
    little = offloading(costs(Host(3.0, 30.0)), make_schedule("1f1b", 2, 8))
    assert little is not None
    assert (little.offload_bytes, little.offload_layers) == ((30.0 / (3 * 2),), 3)


@pytest.mark.parametrize("host", [None, Host(3.0, 0.0)])
def test_without_a_host_nothing_is_offloaded(host: Host | None) -> None:
    assert offloading(costs(host), make_schedule("1f1b", 2, 8)) is None
