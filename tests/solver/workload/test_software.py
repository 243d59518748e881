"""What is known of training software, and where from."""

from __future__ import annotations

import pytest

from solver.request import Precision, Software, Training
from solver.workload.implementation import DEFAULT_IMPLEMENTATION
from solver.workload.software import documented, facts_of, implementation_of

OF_THE_ENTRY = {"title", "version", "targets", "usual_zero_stage", "sources"}


def test_every_software_that_can_be_named_is_known() -> None:
    assert list(documented()) == [name.value for name in Software]


@pytest.mark.parametrize("name", Software)
def test_every_fact_has_a_source_and_every_source_a_fact(name: Software) -> None:
    entry = documented()[name]
    facts = set(entry) - OF_THE_ENTRY - {"implementation", "sharded"}
    facts |= set(entry.get("implementation", {})) | set(entry.get("sharded", {}))
    assert set(entry["sources"]) == facts


@pytest.mark.parametrize("name", Software)
def test_what_it_usually_shards_is_among_what_it_can(name: Software) -> None:
    facts = facts_of(name)
    assert facts.usual_zero_stage in facts.zero_stages


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_megatron_lm_is_what_is_assumed_of_software_that_is_not_named(zero_stage: int) -> None:
    for software in (None, Software.MEGATRON_LM):
        found = implementation_of(Training(software=software), zero_stage)
        assert found == DEFAULT_IMPLEMENTATION
    assert facts_of(Software.MEGATRON_LM).generation == ""


def test_a_width_of_16_bit_gradients_is_not_that_of_training_in_32() -> None:
    wide = Training(software=Software.INTERNEVO, precision=Precision.FP32)
    narrow = Training(software=Software.INTERNEVO)
    assert implementation_of(narrow, 1).gradient_bytes == 2.0
    assert implementation_of(wide, 1).gradient_bytes is None
