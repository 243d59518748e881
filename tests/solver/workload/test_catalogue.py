"""The model catalogue: every entry is readable and sourced, a wrong name gets a hint."""

from __future__ import annotations

import pytest

from solver.errors import UnknownName
from solver.workload.catalogue import architecture, model_names, models


def test_it_holds_the_models_people_ask_for() -> None:
    assert len(model_names()) >= 16
    assert {"llama-3.1-70b", "gpt-3-175b", "mixtral-8x7b", "deepseek-v3"} <= set(model_names())


@pytest.mark.parametrize("name", model_names())
def test_every_entry_is_read_and_names_its_source(name: str) -> None:
    assert architecture(name).name == name
    assert models()[name].source


def test_an_unknown_name_gets_close_ones() -> None:
    with pytest.raises(UnknownName) as error:
        architecture("Llama_3.1_7B")
    assert error.value.field == "model.name"
    assert error.value.hint is not None
    assert "llama-3.1-70b" in error.value.hint


def test_a_name_like_none_gets_the_list() -> None:
    with pytest.raises(UnknownName) as error:
        architecture("\N{SNOWMAN}" * 300)
    assert error.value.hint is not None
    assert "gpt-3-175b" in error.value.hint
    assert len(error.value.detail) < 200
