"""A model given as a profile: measured or hand-made costs instead of an architecture.

The meaning of every field is that of :mod:`solver.costs.pipeline`; a profile only names things by
words where the costs have indices. ``state_bytes`` is one figure for weights, gradients and
optimizer together and is carried as the former.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from solver.costs.pipeline import (
    Account,
    Block,
    Host,
    Op,
    OpKind,
    Overlapping,
    PipelineCosts,
    States,
)
from solver.errors import BadRequest, UnknownName
from solver.request import OpKindName, Profile, ProfileBlock, ProfileOp

MOST_BLOCKS = 4096

_INPUT = "x"
_PATH = "model.profile"


def profile_costs(
    profile: Profile, micro_batches: int, capacity_bytes: float, host: Host | None = None
) -> PipelineCosts:
    """The pipeline costs that a profile states.

    Args:
        profile: The profile, its types already checked.
        micro_batches: Micro-batches per pipeline and iteration.
        capacity_bytes: Usable bytes of one device.
        host: Where activations may be offloaded to; None: nowhere.

    Raises:
        BadRequest: Duplicate or reserved op names, a reference to a tensor that does not exist
            there, or too many blocks; the error names the entry.
        UnknownName: The sequence names a block that is not defined.
    """
    _check_sequence(profile)
    used = {name for name, _ in profile.sequence}
    blocks = {
        name: _block(name, block, f"{_PATH}.blocks.{name}")
        for name, block in profile.blocks.items()
    }
    names = [name for name in blocks if name in used]
    index = {name: position for position, name in enumerate(names)}
    return PipelineCosts(
        blocks=tuple(blocks[name] for name in names),
        sequence=tuple(index[name] for name, count in profile.sequence for _ in range(count)),
        micro_batches=micro_batches,
        capacity_bytes=capacity_bytes,
        send_seconds=profile.pipeline_send_seconds,
        overlapping=Overlapping(slowdown=profile.overlap_slowdown),
        host=host,
    )


def on_device(costs: PipelineCosts, capacity_bytes: float, slowdown: float) -> PipelineCosts:
    """A profile's costs on a device of another memory, every op ``slowdown`` times as long."""
    blocks = tuple(
        replace(
            block,
            ops=tuple(
                replace(
                    op,
                    forward_seconds=op.forward_seconds * slowdown,
                    backward_seconds=op.backward_seconds * slowdown,
                    weight_seconds=op.weight_seconds * slowdown,
                )
                for op in block.ops
            ),
        )
        for block in costs.blocks
    )
    return replace(costs, blocks=blocks, capacity_bytes=capacity_bytes)


def _check_sequence(profile: Profile) -> None:
    total = 0
    for position, (name, count) in enumerate(profile.sequence):
        if name not in profile.blocks:
            close = get_close_matches(name, profile.blocks, n=3) or list(profile.blocks)[:5]
            raise UnknownName(
                f"The sequence names a block {name[:80]!r} that blocks does not define.",
                field=f"{_PATH}.sequence[{position}][0]",
                hint=f"Did you mean {' or '.join(close)}?",
            )
        total += count
    if total > MOST_BLOCKS:
        raise BadRequest(
            f"The sequence holds {total} blocks; at most {MOST_BLOCKS} are planned.",
            field=f"{_PATH}.sequence",
            hint="Join neighbouring blocks to larger ones.",
        )


def _block(name: str, block: ProfileBlock, path: str) -> Block:
    positions: dict[str, int] = {}
    for position, op in enumerate(block.ops):
        if op.name == _INPUT:
            raise BadRequest(
                'An op cannot be named "x": that is the input of the block.',
                field=f"{path}.ops[{position}].name",
                hint="Choose another name.",
            )
        if op.name in positions:
            raise BadRequest(
                f"The block has two ops named {op.name[:80]!r}.",
                field=f"{path}.ops[{position}].name",
                hint=f"ops[{positions[op.name]}] has this name; names identify tensors.",
            )
        positions[op.name] = position
    return Block(
        name=name,
        ops=tuple(
            _op(op, position, positions, f"{path}.ops[{position}]")
            for position, op in enumerate(block.ops)
        ),
        input_bytes=block.input_bytes,
        states=States(weights=block.state_bytes),
    )


def _op(op: ProfileOp, position: int, positions: dict[str, int], path: str) -> Op:
    for entry, name in enumerate(op.inputs):
        if name != _INPUT and positions.get(name, position) >= position:
            raise _bad_reference(name, positions, f"{path}.inputs[{entry}]", earlier=True)
    for entry, name in enumerate(op.backward_reads):
        if name != _INPUT and name not in positions:
            raise _bad_reference(name, positions, f"{path}.backward_reads[{entry}]", earlier=False)
    if op.weight_seconds > op.backward_seconds:
        raise BadRequest(
            f"weight_seconds, {op.weight_seconds:g}, is a part of backward_seconds, "
            f"{op.backward_seconds:g}, and cannot be more.",
            field=f"{path}.weight_seconds",
            hint="Give backward_seconds with the gradients of weights included.",
        )
    communication = op.kind is OpKindName.COMMUNICATION
    return Op(
        name=op.name,
        inputs=tuple(dict.fromkeys(op.inputs)),
        forward_seconds=op.forward_seconds,
        backward_seconds=op.backward_seconds,
        output_bytes=op.output_bytes,
        backward_reads=tuple(dict.fromkeys(op.backward_reads)),
        kind=OpKind.COMMUNICATION if communication else OpKind.COMPUTE,
        account=Account.TENSOR_PARALLEL if communication else Account.COMPUTE,
        weight_seconds=op.weight_seconds,
        weight_held_bytes=op.weight_held_bytes,
    )


def _bad_reference(name: str, positions: dict[str, int], field: str, earlier: bool) -> BadRequest:
    if name in positions:
        detail = f"The input {name[:80]!r} is not made before this op."
    else:
        detail = f"No op of this block makes a tensor {name[:80]!r}."
    close = get_close_matches(name, positions, n=1)
    allowed = '"x" or an earlier op' if earlier else '"x" or an op of the same block'
    meant = f" Did you mean {close[0]}?" if close and name not in positions else ""
    return BadRequest(detail, field=field, hint=f"Name {allowed}.{meant}")
