"""Layer patterns and pipeline layouts: read without running them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.errors import BadRequest
from solver.workload.megatron.patterns import StageContent, layer_pattern, pipeline_layout

FLAG = "--moe-layer-freq"
LAYOUT = "--pipeline-model-parallel-layout"


def test_a_number_picks_every_so_manyth_layer() -> None:
    assert layer_pattern(FLAG, "2", 5) == [True, False, True, False, True]


@pytest.mark.parametrize(
    "text", ["([0]*3+[1]*2)", "[0,0,0,1,1]", "[0]*3+[1]*2", "(([0])*3)+[1]+[1]", "[0]*3+([1]*2)"]
)
def test_a_list_is_read_as_python_would(text: str) -> None:
    assert layer_pattern(FLAG, text, 5) == [False, False, False, True, True]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "[0]*3",
        "[2]*5",
        "[1]*99999999",
        "([1]*5",
        "[]*5",
        "0",
        "(" * 200,
        "[1]**5",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as error:
        layer_pattern(FLAG, text, 5)
    assert error.value.field == f"model.megatron_args[{FLAG}]"


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 3))
def test_sums_and_multiples_count_as_they_read(zeros: int, ones: int, times: int) -> None:
    layers = times * (zeros + ones)
    if layers:
        found = layer_pattern(FLAG, f"([0]*{zeros}+[1]*{ones})*{times}", layers)
        assert found == ([False] * zeros + [True] * ones) * times


@pytest.mark.parametrize(
    ("text", "layers", "stages"),
    [
        ("Ettt|(tt|)*29,m|L", 61, 32),
        ("Et*3|(tt|)*29,m|L", 61, 32),
        ("Et*2|(tt|)*5t|tmL", 14, 8),
        ("Et|(tt|)*30L", 61, 32),
        ("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 80, 40),
    ],
)
def test_layouts_of_real_runs(text: str, layers: int, stages: int) -> None:
    found = pipeline_layout(LAYOUT, text)
    assert sum(stage.layers for stage in found) == layers
    assert len(found) == stages
    assert found[0].embedding
    assert found[-1].loss


def test_a_stage_knows_its_blocks() -> None:
    assert pipeline_layout(LAYOUT, "Et|tmL") == [
        StageContent(embedding=True, layers=1),
        StageContent(layers=1, predictions=1, loss=True),
    ]
    assert [stage.blocks for stage in pipeline_layout(LAYOUT, "Et|tmL")] == [2, 3]


@pytest.mark.parametrize(
    "text", ["", "tL", "Et", "EtxL", "ELt", "EEtL", "Etmt|L", "E(t", "Et*99999L"]
)
def test_a_layout_out_of_order_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as error:
        pipeline_layout(LAYOUT, text)
    assert error.value.field == f"model.megatron_args[{LAYOUT}]"
