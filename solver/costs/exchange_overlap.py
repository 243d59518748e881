"""Experts' exchange beside the products of another micro-batch.

The forward of one micro-batch and the backward of another run side by side, layer by layer, on two
streams: while the one exchanges tokens the other computes (Megatron-LM,
``--overlap-moe-expert-parallel-comm``, core/pipeline_parallel/combined_1f1b.py; DualPipe,
arXiv:2412.19437, section 3.2.1). Measured, about half of the exchange that the products could cover
goes: the kernels of an exchange take multiprocessors and memory bandwidth from those beside them,
and the two streams wait for one another between layers (``expert_overlap`` and its sources in
``calibration/software.json``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from solver.costs.pipeline import Account, Op, OpKind
from solver.layouts.layout import Layout
from solver.request import Training


def exchange_overlaps(training: Training, layout: Layout) -> bool:
    """Whether other products run beside this layout's exchange."""
    return training.overlap_expert_parallel and layout.expert_parallel > 1


def with_exchange_hidden(ops: tuple[Op, ...], share: float, beside: float = 0.0) -> tuple[Op, ...]:
    """A block's ops where other micro-batches' products hide its exchange.

    A forward and a backward of the same block run side by side, so that what both exchange meets
    what both compute. An exchange that is recomputed is taken to hide like the first one.

    Args:
        ops: Of the block, in forward order.
        share: Of what the products could cover, the part that is hidden.
        beside: Seconds of products of the same layer that are not in ``ops``.
    """
    exchanged = _seconds(op for op in ops if op.account is Account.EXPERT_PARALLEL)
    if exchanged == 0.0:
        return ops
    computed = beside + compute_seconds(ops)
    left = 1.0 - share * min(exchanged, computed) / exchanged
    return tuple(
        replace(
            op,
            forward_seconds=left * op.forward_seconds,
            backward_seconds=left * op.backward_seconds,
        )
        if op.account is Account.EXPERT_PARALLEL
        else op
        for op in ops
    )


def compute_seconds(ops: Iterable[Op]) -> float:
    """Seconds of a forward and a backward in which the compute units work."""
    return _seconds(op for op in ops if op.kind is OpKind.COMPUTE)


def _seconds(ops: Iterable[Op]) -> float:
    return sum(op.forward_seconds + op.backward_seconds for op in ops)


def held_meanwhile(ops: Iterable[Op], input_bytes: float) -> float:
    """Bytes that a block running side by side holds beside what the schedule counts: once its own.

    One micro-batch more is sent ahead before steady state (Megatron-LM,
    core/pipeline_parallel/schedules.py, get_pp_rank_microbatches), in place of the forward that
    otherwise precedes each backward; while the two run, the forward is a layer ahead of what the
    backward has freed.
    """
    laid = tuple(ops)
    read = {name for op in laid for name in op.backward_reads} - {"x"}
    return input_bytes + sum(op.output_bytes for op in laid if op.name in read)
