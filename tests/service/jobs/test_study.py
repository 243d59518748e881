"""Work of other kinds is stored as it was asked."""

from __future__ import annotations

import pytest

from service.jobs.study import Study
from solver.capacity.documents import CapacityRequest
from solver.request import PlanRequest, canonical

FLAGS = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
    "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 32000"
)


@pytest.mark.parametrize("model", [{"megatron_args": FLAGS}, {"name": "llama-3.1-8b"}])
def test_a_study_says_no_more_of_its_job_than_a_plan_of_it_would(model: dict[str, str]) -> None:
    job = PlanRequest.model_validate(
        {"model": model, "cluster": {"device": "H100-SXM5-80GB", "devices_per_node": 8}}
    )
    nodes = {"maximum": 2}
    whole = CapacityRequest.model_validate({"job": job, "nodes": nodes})
    study = Study(request=job, of_kind="capacity", whole=whole)
    again = CapacityRequest.model_validate_json(study.json)
    assert canonical(again.job) == canonical(job)
    if "megatron_args" in model:
        assert again.job.model_fields_set == job.model_fields_set
    assert Study(request=again.job, of_kind="capacity", whole=again).plan_id == study.plan_id
