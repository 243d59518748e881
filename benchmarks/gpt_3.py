"""GPT-3 175B as costs that never move: a plain roofline at the data-sheet peaks of an A100.

Shapes are those of the model (Brown et al. 2020, arXiv 2005.14165) under tensor and sequence
parallelism over 8 devices, one sequence of 4096 tokens per micro-batch; what a backward reads is
that of Korthikanti et al. 2022 (arXiv 2205.05198) with fused attention. The solver's own cost model
is left out on purpose: what is measured here is the optimisation alone.
"""

from __future__ import annotations

from dataclasses import replace

from solver.costs.pipeline import Block, Op, OpKind, PipelineCosts, States

FLOPS = 312e12  # A100 data sheet: bf16, dense
MEMORY_BYTES_PER_SECOND = 2.039e12  # likewise, 80 GB SXM
NVLINK_BYTES_PER_SECOND = 300e9  # likewise, one direction
INFINIBAND_BYTES_PER_SECOND = 25e9  # HDR, one 200 Gb/s card per device

TENSOR_PARALLEL, TOKENS, HIDDEN, VOCABULARY = 8, 4096, 12288, 51200
BYTES = 2.0
STATE_BYTES_PER_WEIGHT = 18.0  # bf16 weight; fp32 gradient, weight and two Adam moments

WHOLE = BYTES * TOKENS * HIDDEN
SHARD = WHOLE / TENSOR_PARALLEL


def gpt_3(layers: int, micro_batches: int, capacity_bytes: float) -> PipelineCosts:
    """Embedding, so many layers, head."""
    return PipelineCosts(
        blocks=(_embedding(), _layer(), _head()),
        sequence=(0, *[1] * layers, 2),
        micro_batches=micro_batches,
        capacity_bytes=capacity_bytes,
        send_seconds=SHARD / INFINIBAND_BYTES_PER_SECOND,
    )


def gpt_3_halves(layers: int, micro_batches: int, capacity_bytes: float) -> PipelineCosts:
    """The same with the attention and the feed-forward half of every layer as blocks of their own.

    The second half reads the sum that the first one leaves, which is its input.
    """
    ops = _layer().ops
    at = next(place for place, op in enumerate(ops) if op.name == "feed_forward_norm")

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple("x" if name == "attention_sum" else name for name in names)

    second = [
        replace(op, inputs=renamed(op.inputs), backward_reads=renamed(op.backward_reads))
        for op in ops[at:]
    ]
    halves = (
        Block("attention", ops[:at], SHARD, _states(4 * HIDDEN * HIDDEN)),
        Block("feed-forward", tuple(second), SHARD, _states(8 * HIDDEN * HIDDEN)),
    )
    return PipelineCosts(
        blocks=(_embedding(), *halves, _head()),
        sequence=(0, *[1, 2] * layers, 3),
        micro_batches=micro_batches,
        capacity_bytes=capacity_bytes,
        send_seconds=SHARD / INFINIBAND_BYTES_PER_SECOND,
    )


def _states(weights: float) -> States:
    return States(weights=weights / TENSOR_PARALLEL * STATE_BYTES_PER_WEIGHT)


def _product(name: str, source: str, inner: int, outer: int, output_bytes: float) -> Op:
    """A matrix product of all tokens, shared by the devices; its backward is two of them.

    Its input is whole where it was gathered, else the device's part.
    """
    seconds = 2 * TOKENS * inner * outer / TENSOR_PARALLEL / FLOPS
    input_bytes = BYTES * TOKENS * inner / (1 if "gather" in source else TENSOR_PARALLEL)
    return Op(
        name,
        (source,),
        seconds,
        2 * seconds,
        output_bytes,
        (source,),
        weight_seconds=seconds,
        weight_held_bytes=input_bytes + output_bytes,
    )


def _elementwise(
    name: str, sources: tuple[str, ...], output_bytes: float, reads: tuple[str, ...]
) -> Op:
    """Bound by memory: every source read and the output written."""
    seconds = (len(sources) + 1) * output_bytes / MEMORY_BYTES_PER_SECOND
    return Op(name, sources, seconds, 2 * seconds, output_bytes, reads)


def _collective(name: str, source: str, output_bytes: float) -> Op:
    """All-gather or reduce-scatter over the node, the other one in backward."""
    seconds = WHOLE * (TENSOR_PARALLEL - 1) / TENSOR_PARALLEL / NVLINK_BYTES_PER_SECOND
    kind = OpKind.COMMUNICATION
    return Op(name, (source,), seconds, seconds, output_bytes, kind=kind)


def _attention() -> Op:
    """Fused and causal: scores and weighted sum, half of each; backward runs scores again."""
    seconds = 2 * TOKENS * TOKENS * HIDDEN / TENSOR_PARALLEL / FLOPS
    reads = ("query_key_value", "attention")
    return Op("attention", ("query_key_value",), seconds, 2.5 * seconds, SHARD, reads)


def _layer() -> Block:
    return Block(
        name="layer",
        ops=(
            _elementwise("attention_norm", ("x",), SHARD, ("x",)),
            _collective("attention_gather", "attention_norm", WHOLE),
            _product("query_key_value", "attention_gather", HIDDEN, 3 * HIDDEN, 3 * SHARD),
            _attention(),
            _product("projection", "attention", HIDDEN, HIDDEN, WHOLE),
            _collective("attention_scatter", "projection", SHARD),
            _elementwise("attention_sum", ("x", "attention_scatter"), SHARD, ()),
            _elementwise("feed_forward_norm", ("attention_sum",), SHARD, ("attention_sum",)),
            _collective("feed_forward_gather", "feed_forward_norm", WHOLE),
            _product("feed_forward_in", "feed_forward_gather", HIDDEN, 4 * HIDDEN, 4 * SHARD),
            _elementwise("activation", ("feed_forward_in",), 4 * SHARD, ("feed_forward_in",)),
            _product("feed_forward_out", "activation", 4 * HIDDEN, HIDDEN, WHOLE),
            _collective("feed_forward_scatter", "feed_forward_out", SHARD),
            _elementwise("feed_forward_sum", ("attention_sum", "feed_forward_scatter"), SHARD, ()),
        ),
        input_bytes=SHARD,
        states=_states(12 * HIDDEN * HIDDEN),
    )


def _embedding() -> Block:
    lookup = _elementwise("lookup", ("x",), SHARD, ("x",))
    return Block("embedding", (lookup,), 8.0 * TOKENS, _states(VOCABULARY * HIDDEN))


def _head() -> Block:
    logits = 4 * TOKENS * VOCABULARY / TENSOR_PARALLEL
    return Block(
        name="head",
        ops=(
            _elementwise("norm", ("x",), SHARD, ("x",)),
            _collective("gather", "norm", WHOLE),
            _product("logits", "gather", HIDDEN, VOCABULARY, logits),
            _elementwise("loss", ("logits",), logits, ("logits",)),
        ),
        input_bytes=SHARD,
        states=_states(VOCABULARY * HIDDEN),
    )
