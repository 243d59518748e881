"""A request and its answers, made up, to look at how they are shown."""

from __future__ import annotations

from solver.plan import (
    Baseline,
    BlockRecompute,
    Breakdown,
    Evaluation,
    LayoutAnswer,
    Plan,
    Shortfall,
    SolverReport,
    Stage,
    StageMemory,
    Status,
)
from solver.request import PlanRequest

GIB = 2.0**30

REQUEST = PlanRequest.model_validate(
    {
        "model": {"name": "llama-3.1-70b"},
        "cluster": {"device": "H100-SXM5-80GB", "nodes": 8, "devices_per_node": 8},
        "training": {"sequence_length": 8192, "global_batch_size": 512},
    }
)

LAYOUT = LayoutAnswer(
    tensor_parallel=8,
    pipeline_parallel=4,
    context_parallel=1,
    expert_parallel=1,
    data_parallel=2,
    virtual_stages=1,
    micro_batch_size=1,
    sequence_parallel=True,
    zero_stage=1,
    schedule="1f1b",
)


def stage(index: int, blocks: list[tuple[str, int]], recompute: list[BlockRecompute]) -> Stage:
    memory = StageMemory(
        weights=16 * GIB,
        gradients=16 * GIB,
        optimizer=8 * GIB,
        activations=(34 - 4 * index) * GIB,
        recompute=1 * GIB,
    )
    return Stage(
        index=index,
        blocks=blocks,
        forward_seconds=0.0213,
        backward_seconds=0.0467,
        recompute_seconds=0.0041,
        in_flight=4 - index,
        peak_memory_bytes=sum(memory.model_dump().values()),
        memory=memory,
        recompute=recompute,
    )


STAGES = [
    stage(
        0,
        [("embedding", 1), ("layer", 19)],
        [
            BlockRecompute(
                block="layer", count=12, recomputed=["norm_1", "mlp.up", "mlp.gate", "mlp.act"]
            ),
            BlockRecompute(block="layer", count=7, recomputed=["norm_1"]),
        ],
    ),
    stage(1, [("layer", 20)], [BlockRecompute(block="layer", count=20, recomputed=["norm_1"])]),
    stage(2, [("layer", 21)], []),
    stage(3, [("layer", 20), ("head", 1)], []),
]

BREAKDOWN = Breakdown(
    compute=12.0,
    recompute=1.2,
    bubble=1.1,
    tensor_parallel=2.2,
    pipeline_parallel=0.1,
    data_parallel=0.7,
    optimizer=0.12,
)

PLAN = Plan(
    id="0123456789abcdef0123456789abcdef",
    status=Status.SUCCEEDED,
    iteration_seconds=17.42,
    tokens_per_second_per_device=3761.4,
    model_flops_utilization=0.4312,
    fits=True,
    peak_memory_bytes=75 * GIB,
    memory_limit_bytes=79.1 * GIB,
    layout=LAYOUT,
    micro_batches=256,
    stages=STAGES,
    breakdown=BREAKDOWN,
    lower_bound_seconds=17.41,
    gap=0.0007,
    baselines={
        "full": Baseline(iteration_seconds=21.6, fits=True),
        "none": Baseline(iteration_seconds=None, fits=False),
        "selective": Baseline(iteration_seconds=18.3, fits=True),
    },
    solver=SolverReport(
        seconds=0.8, engine="e", version="1", layouts_considered=40, layouts_pruned=31
    ),
)

INFEASIBLE = Plan(
    id="ffff456789abcdef0123456789abcdef",
    status=Status.INFEASIBLE,
    shortfall=Shortfall(
        stage=0,
        missing_bytes=12.5 * GIB,
        needed_bytes=91.6 * GIB,
        memory_limit_bytes=79.1 * GIB,
        layout=LAYOUT,
    ),
)

EVALUATION = Evaluation(
    iteration_seconds=17.42,
    tokens_per_second_per_device=3761.4,
    model_flops_utilization=0.4312,
    fits=False,
    peak_memory_bytes=91.6 * GIB,
    memory_limit_bytes=79.1 * GIB,
    layout=LAYOUT,
    micro_batches=256,
    stages=STAGES,
    breakdown=BREAKDOWN,
    notes=["The fabric was taken to be 400 Gb/s InfiniBand per device."],
)
