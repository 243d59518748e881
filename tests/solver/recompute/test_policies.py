"""What the named policies do to a block, against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from solver.costs.pipeline import Module
from solver.recompute import choice_keeping, keep_all
from solver.recompute.policies import full, least_memory, selective
from tests.solver.recompute.samples import ATTENTION


def test_full_keeps_the_input_and_runs_what_is_needed_again() -> None:
    choice = full(ATTENTION)
    assert (choice.kept_bytes, choice.seconds, choice.recompute_bytes) == (10.0, 8.0, 130.0)
    assert not choice.whole


def test_full_of_a_framework_runs_the_whole_forward_again() -> None:
    choice = full(replace(ATTENTION, rerun_seconds=8.5))
    assert (choice.kept_bytes, choice.seconds, choice.recompute_bytes) == (10.0, 8.5, 130.0)
    assert choice.whole


def test_full_is_never_charged_less_than_what_is_needed() -> None:
    assert full(replace(ATTENTION, rerun_seconds=1.0)).seconds == 8.0


def test_selective_runs_the_tensors_of_its_modules_again() -> None:
    choice = selective(ATTENTION, ("core_attn",))
    assert choice.recomputed == ("scores",)
    assert (choice.kept_bytes, choice.seconds, choice.recompute_bytes) == (40.0, 4.0, 100.0)


def test_selective_takes_several_modules_together() -> None:
    choice = selective(ATTENTION, ("core_attn", "layernorm"))
    assert choice.recomputed == ("norm", "scores")
    assert (choice.kept_bytes, choice.seconds, choice.recompute_bytes) == (30.0, 5.0, 110.0)


def test_an_output_that_others_keep_is_made_again_but_stays() -> None:
    again = Module("core_attn", ("scores",), ("context",))
    choice = selective(replace(ATTENTION, modules=(again,)), ("core_attn",))
    assert (choice.recomputed, choice.repeated) == (("scores",), ("context",))
    assert (choice.kept_bytes, choice.seconds, choice.recompute_bytes) == (40.0, 7.0, 120.0)


def test_selective_without_a_module_of_the_block_keeps_all() -> None:
    assert selective(ATTENTION, ("experts",)) == keep_all(ATTENTION)


def test_policies_leave_blocks_alone_that_frameworks_do_not_checkpoint() -> None:
    head = replace(ATTENTION, checkpointable=False)
    assert full(head) == keep_all(head)
    assert selective(head, ("core_attn",)) == keep_all(head)


def test_least_memory_recomputes_whatever_frameworks_offer() -> None:
    head = replace(ATTENTION, checkpointable=False)
    assert least_memory(head) == choice_keeping(ATTENTION, ())
