"""What a job's form lets one choose, each value with what it means."""

from __future__ import annotations

from solver.request import Offload, Overlap, Policy, ScheduleName, Software
from solver.targets.registry import TARGETS
from solver.workload.software import facts_of

Options = list[tuple[str, str]]
"""Values and words."""

_SCHEDULES = {
    ScheduleName.GPIPE: "GPipe: all forwards, then all backwards",
    ScheduleName.ONE_F_ONE_B: "1F1B: forwards and backwards in turn",
    ScheduleName.ZB_H1: "ZB-H1: gradients of weights fill stalls, memory as 1F1B",
    ScheduleName.ZB_V: "ZB-V: two chunks per device, in a V, hardly any stall",
    ScheduleName.CHIMERA: "Chimera: two pipelines in opposite directions",
}
_POLICIES = {
    Policy.OPTIMAL: "optimal: tensor by tensor, as is fastest",
    Policy.NONE: "none: everything is kept",
    Policy.FULL: "full: only the input of each block is kept",
    Policy.SELECTIVE: "selective: core attention only, as Megatron-LM",
    Policy.UNIFORM: "uniform: inputs of groups of layers are kept",
    Policy.BLOCK: "block: the first layers of each stage in full",
    Policy.ADAPIPE: "AdaPipe: the paper's method, cuts included",
    Policy.LYNX_HEU: "Lynx-HEU: the paper's method, cuts included",
}
_OVERLAPS = {
    Overlap.OFF: "off: all of it takes time",
    Overlap.COMMUNICATION: "communication of the backward",
    Overlap.STALLS: "stalls of the pipeline",
    Overlap.ALL: "both: communication and stalls",
}
_OFFLOADS = {
    Offload.OFF: "off: all that is kept stays on the device",
    Offload.ON: "on: what the link to the host hides, if faster",
}
_SOFTWARE = {
    Software.MEGATRON_LM: "as assumed of any run",
    Software.MEGATRON_DEEPSPEED: "two gradients, buffers of 500 million",
    Software.NANOTRON: "eager kernels, reductions that wait",
    Software.TORCHTITAN: "FSDP, an eager loss in fp32",
    Software.INTERNEVO: "16-bit gradients, copies in the step",
}
_FRAMEWORKS = {
    "megatron-lm": "one recompute setting for all ranks",
    "megatron-bridge": "Megatron-LM's settings, from Python",
    "mindspeed": "Megatron-LM on Ascend, norms and activations too",
    "mindformers": "attention, feed-forward or both, layer by layer",
    "mindformers-graph": "a number of layers per chunk in full",
    "deepspeed": "one recompute interval, no list of stages",
    "torchtitan": "whole layers, or all but chosen ops",
    "colossalai": "a number of layers per chunk in full",
    "galvatron": "layer by layer in full or not",
    "pytorch": "any tensors of any layer",
}


def options() -> dict[str, Options]:
    """The choices of the form, by the name that its template knows them under."""
    return {
        "schedules": [(name.value, _SCHEDULES[name]) for name in ScheduleName],
        "policies": [(name.value, _POLICIES[name]) for name in Policy],
        "overlaps": [(name.value, _OVERLAPS[name]) for name in Overlap],
        "offloads": [(name.value, _OFFLOADS[name]) for name in Offload],
        "software": [
            (name.value, f"{facts_of(name).title}: {_SOFTWARE[name]}") for name in Software
        ],
        "frameworks": [
            (name, f"{target.title}: {_FRAMEWORKS[name]}") for name, target in TARGETS.items()
        ],
    }
