"""From Megatron-LM's flags to the settings of an execution that its memory depends on."""

from __future__ import annotations

from solver.workload.implementation import Dispatcher, Implementation
from solver.workload.megatron.flags import Flags, wrong

_DISPATCHERS = {
    "allgather": Dispatcher.ALL_GATHER,
    "alltoall": Dispatcher.ALL_TO_ALL,
    "alltoall_seq": Dispatcher.ALL_TO_ALL,
    "flex": Dispatcher.FORWARD,
}
_ALL = 1 << 30
_KERNELS = {
    "auto": "auto",
    "flash": "flash",
    "fused": "fused",
    "unfused": "unfused",
    "local": "unfused",
}
_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0}


def read_implementation(flags: Flags) -> Implementation:
    """The settings of the execution.

    Raises:
        BadRequest: Flags contradict one another.
    """
    local = flags.text("--transformer-impl") == "local"
    precise = flags.switch("--use-precision-aware-optimizer")
    own = flags.switch("--use-megatron-fsdp")
    gradients = _width(flags, "--main-grads-dtype")
    if own:
        gradients = _width(flags, "--megatron-fsdp-main-grads-dtype") or gradients
    if flags.switch("--grad-reduce-in-bf16"):
        gradients = 2.0
    elif flags.switch("--accumulate-allreduce-grads-in-fp32"):
        gradients = 4.0
    master = _width(flags, "--main-params-dtype")
    moments = [_width(flags, "--exp-avg-dtype"), _width(flags, "--exp-avg-sq-dtype")]
    if not precise and any(width not in (None, 4.0) for width in (master, *moments)):
        raise wrong(
            "--use-precision-aware-optimizer",
            "Optimizer state narrower than fp32 needs --use-precision-aware-optimizer.",
            "Add it, or leave the state in fp32.",
        )
    unfused_activation = flags.switch("--no-bias-gelu-fusion") or flags.switch(
        "--no-bias-swiglu-fusion"
    )
    return Implementation(
        software="fused",
        transformer_engine=not local,
        fused_weight_gradient=not flags.switch("--no-gradient-accumulation-fusion"),
        fused_loss=flags.switch("--cross-entropy-loss-fusion"),
        attention_kernel=flags.choice("--attention-backend", _KERNELS, "auto"),
        fused_activation=not unfused_activation,
        deterministic=flags.switch("--deterministic-mode"),
        grouped_experts=flags.switch("--moe-grouped-gemm"),
        dispatcher=flags.choice("--moe-token-dispatcher-type", _DISPATCHERS, Dispatcher.ALL_GATHER),
        fused_softmax=not flags.switch("--no-masked-softmax-fusion"),
        wide_router=flags.choice("--moe-router-dtype", {"fp32": True, "fp64": True}, False),
        deferred_head_passes=_deferred_head_passes(flags),
        vocabulary_multiple=flags.integer("--make-vocab-size-divisible-by", 128),
        weight_bytes=None if flags.switch("--bf16") or flags.switch("--fp16") else 4.0,
        gradient_bytes=gradients,
        optimizer_shards=flags.integer("--num-distributed-optimizer-instances", 1),
        matrix_momentum=flags.text("--optimizer") in ("muon", "dist_muon"),
        whole_parameters=_whole_parameters(flags),
        master_bytes=master,
        first_moment_bytes=moments[0],
        second_moment_bytes=moments[1],
        separate_weights=own,
    )


def _whole_parameters(flags: Flags) -> bool:
    """Muon updates whole matrices; its sharded form deals them out unless it lays them out."""
    return flags.switch("--no-use-layer-wise-param-layout")


def _deferred_head_passes(flags: Flags) -> int:
    """``--wgrad-deferral-limit``: 0 stands for all micro-batches."""
    limit = flags.integer("--wgrad-deferral-limit", 0, minimum=0)
    if not flags.switch("--defer-embedding-wgrad-compute"):
        return 0
    return limit or _ALL


def _width(flags: Flags, flag: str) -> float | None:
    width: float | None = flags.choice(flag, _BYTES, None)
    return width
