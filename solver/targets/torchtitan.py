"""torchtitan: module lists per stage, one recompute policy for all layers.

Read from pytorch/torchtitan at b5bcd76c (August 2026) and its release 0.3.0 (September 2026), which
count batches in tokens and in sequences: what is written fits both.
``parallelism.module_fqns_per_model_part`` takes any contiguous split. ``activation_checkpoint`` is
``FullAC``, ``SelectiveAC`` (``torchtitan_policies.py``), or nothing; or a subclass of them, as
their documentation proposes: one that saves attention alone, and one that checkpoints every n-th
layer of a stage, as ``selective_ac_option`` did until 0.2. ``MemoryBudgetAC`` leaves the choice to
the compiler and is not planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from solver.costs.pipeline import PipelineCosts
from solver.layouts.layout import Layout
from solver.partition.regime import Regime
from solver.plan import BlockRecompute, Export, Stage
from solver.recompute.choice import keep_all
from solver.recompute.policies import full
from solver.targets.layers import ENDS, admits_layers, kinds_in_turn, layer_count
from solver.targets.planned import Planned, context_word, has_embedding, has_head
from solver.targets.regimes import Setting, every_nth, one_choice
from solver.targets.target import Target, flights
from solver.targets.torchtitan_policies import (
    attention_saved,
    every_second_product_saved,
    has_attention,
    has_products,
)
from solver.targets.words import Remarks, python_export

_ROTATIONS = {"ring": "alltoall", "all-gather": "allgather"}
"""How keys and values come round: a shuffle at every step of a ring, or all of them at once."""

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe"}


class Torchtitan(Target):
    """PyTorch's torchtitan."""

    name = "torchtitan"
    title = "torchtitan"
    version = "0.3.0, b5bcd76c"
    schedules = ("1f1b", "gpipe")
    virtual_stages = True
    zero_stages = (0, 1, 2, 3)
    context_methods = ("ring", "all-gather")

    def regimes(self, costs: PipelineCosts, layout: Layout) -> list[Regime]:
        """All layers in full, or none; every n-th; all but what operators save."""
        admits, held = admits_layers(costs, head_alone=True), flights(costs, layout)
        found = [
            one_choice(costs, held, _setting("FullAC"), full, admits),
            one_choice(costs, held, _setting("None"), keep_all, admits),
        ]
        if has_products(costs):
            scatters = layout.sequence_parallel
            by_operator = partial(every_second_product_saved, scatters=scatters)
            found.append(one_choice(costs, held, _setting("SelectiveAC"), by_operator, admits))
        if has_attention(costs):
            setting = _setting("SelectiveAC", save="attention")
            found.append(one_choice(costs, held, setting, attention_saved, admits))
        if not kinds_in_turn(costs):
            most = layer_count(costs) - max(layout.pipeline_parallel * layout.virtual_stages - 2, 0)
            found += [
                every_nth(costs, held, number, _setting("FullAC", every=number), admits)
                for number in range(2, most + 1)
            ]
        return found

    def export(self, planned: Planned) -> Export:
        """A function that sets the plan's fields on a Trainer.Config."""
        remarks = Remarks()
        policy = _policy(planned, remarks)
        text = _TEMPLATE.format(
            version=self.version,
            before=policy.before,
            checkpoint=policy.value,
            fields="\n".join(_fields(planned, remarks)),
            batches="\n".join(_batches(planned)),
        )
        return python_export(self, text, remarks)


def _setting(policy: str, **more: str | int) -> Setting:
    return (("activation_checkpoint", policy), *more.items())


_TEMPLATE = '''"""Plan for torchtitan ({version}): call apply(config) on your Trainer.Config."""

{before}
def apply(config):
    """Set what the plan decides; model and data stay as they are."""
    config.activation_checkpoint = {checkpoint}
    parallelism, training = config.parallelism, config.training
{fields}
{batches}
    return config
'''


@dataclass(frozen=True)
class _Written:
    """A policy: what is written for it, and what stands before that."""

    value: str
    before: str = ""


_NONE = _Written("None")
_FULL = _Written(
    "FullAC.Config()", "from torchtitan.distributed.activation_checkpoint import FullAC\n\n"
)
_SELECTIVE = _Written(
    "SelectiveAC.Config()",
    "from torchtitan.distributed.activation_checkpoint import SelectiveAC\n\n",
)
_ATTENTION_ONLY = _Written(
    "AttentionSaved.Config()",
    '''from dataclasses import dataclass

import torch
from torchtitan.distributed.activation_checkpoint import SelectiveAC


class AttentionSaved(SelectiveAC):
    """Runs a layer again but for its attention kernel and the choice of experts."""

    @dataclass(kw_only=True, slots=True)
    class Config(SelectiveAC.Config):
        pass

    def get_save_ops(self):
        """Every attention kernel, and the top-k of a router, that this PyTorch has."""
        aten = torch.ops.aten
        return {
            aten._scaled_dot_product_flash_attention.default,
            aten._scaled_dot_product_efficient_attention.default,
            aten._scaled_dot_product_cudnn_attention.default,
            aten._scaled_dot_product_attention_math.default,
            aten._scaled_dot_product_flash_attention_for_cpu.default,
            aten.topk.default,
            torch._higher_order_ops.flex_attention,
        }

''',
)


def _every(number: int) -> _Written:
    """Every n-th layer of a stage in full."""
    return _Written(
        "EveryNth.Config()",
        f'''from dataclasses import dataclass

from torchtitan.distributed.activation_checkpoint import FullAC


class EveryNth(FullAC):
    """Runs every layer of a stage again whose number there {number} divides, counted from 1."""

    @dataclass(kw_only=True, slots=True)
    class Config(FullAC.Config):
        pass

    def apply(self, model):
        """Wrap these layers of one part of the model."""
        layers = model.get_submodule("layers")
        for place, (name, layer) in enumerate(list(layers.named_children()), start=1):
            if place % {number} == 0:
                layers.register_module(name, self._wrap_block(layer, base_fqn=f"layers.{{name}}"))

''',
    )


def module_names(planned: Planned) -> list[list[str]]:
    """The modules of each stage, by their names in torchtitan's models."""
    found = []
    for stage, (first, stop) in zip(planned.stages, planned.ranges, strict=True):
        names = ["tok_embeddings"] if has_embedding(stage) else []
        names += [f"layers.{layer}" for layer in range(first, stop)]
        found.append([*names, *(["norm", "lm_head"] if has_head(stage) else [])])
    return found


def _policy(planned: Planned, remarks: Remarks) -> _Written:
    if planned.setting is not None:
        return _of_setting(planned.setting)
    layers = [entry for stage in planned.stages for entry in _layers(stage)]
    if all(entry.whole and entry.group == 1 for entry in layers):
        return _FULL
    if any(entry.recomputed for entry in layers):
        remarks.lost.append("Layers differ in what they recompute; torchtitan has one policy.")
    return _NONE


def _of_setting(setting: Mapping[str, object]) -> _Written:
    every = setting.get("every")
    if isinstance(every, int):
        return _every(every)
    if setting.get("save") == "attention":
        return _ATTENTION_ONLY
    policies = {"FullAC": _FULL, "SelectiveAC": _SELECTIVE, "None": _NONE}
    return policies[str(setting["activation_checkpoint"])]


def _layers(stage: Stage) -> list[BlockRecompute]:
    return [entry for entry in stage.recompute if entry.block not in ENDS]


def _fields(planned: Planned, remarks: Remarks) -> list[str]:
    layout = planned.layout
    values: dict[str, object] = {
        "tensor_parallel_degree": layout.tensor_parallel,
        "enable_sequence_parallel": layout.sequence_parallel or layout.tensor_parallel == 1,
        "context_parallel_degree": layout.context_parallel,
        "expert_parallel_degree": layout.expert_parallel,
        "pipeline_parallel_degree": layout.pipeline_parallel,
    }
    if layout.context_parallel > 1:
        method = context_word(planned, "torchtitan", _ROTATIONS, remarks)
        values["context_parallel_rotate_method"] = method
    if layout.zero_stage == 0:
        values |= {
            "data_parallel_replicate_degree": layout.data_parallel,
            "data_parallel_shard_degree": 1,
        }
    else:
        values |= {
            "data_parallel_replicate_degree": 1,
            "data_parallel_shard_degree": layout.data_parallel,
            "fsdp_reshard_after_forward": "always" if layout.zero_stage == 3 else "never",
        }
    if layout.zero_stage == 1:
        remarks.known.append(
            "FSDP stands for ZeRO 1: it shards gradients as well, so memory is a little less."
        )
    if layout.pipeline_parallel > 1:
        name = "Interleaved1F1B" if layout.virtual_stages > 1 else _SCHEDULES[layout.schedule]
        values |= {
            "pipeline_parallel_schedule": name,
            "module_fqns_per_model_part": module_names(planned),
        }
    return [f"    parallelism.{field} = {value!r}" for field, value in values.items()]


def _batches(planned: Planned) -> list[str]:
    """The batch in tokens where this torchtitan has such fields, else in sequences."""
    layout, length = planned.layout, planned.sequence_length
    pipelined = layout.pipeline_parallel > 1
    local = layout.micro_batch_size * (planned.micro_batches if pipelined else 1)
    sequences: dict[str, object] = {
        "training.local_batch_size": local,
        "training.global_batch_size": planned.global_batch_size,
    }
    tokens: dict[str, object] = {}
    if length is not None:
        sequences["training.seq_len"] = tokens["training.max_context_length"] = length
        step = planned.global_batch_size * length
        tokens |= {
            "training.num_tokens_per_microbatch_per_dp_rank": layout.micro_batch_size * length,
            "training.num_tokens_per_train_step": step,
        }
    if pipelined:
        tokens["parallelism.num_pp_microbatches"] = planned.micro_batches
        sequences["parallelism.pipeline_parallel_microbatch_size"] = layout.micro_batch_size
    return [
        '    if hasattr(training, "num_tokens_per_train_step"):',
        *([f"        {name} = {value}" for name, value in tokens.items()] or ["        pass"]),
        "    else:",
        *(f"        {name} = {value}" for name, value in sequences.items()),
    ]
