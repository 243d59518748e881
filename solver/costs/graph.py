"""A block's ops as they are laid down, in forward order, with the linear layers' collectives.

Tensor parallelism follows Megatron-LM (Shoeybi et al. 2019, section 3) and its sequence-parallel
form (Korthikanti et al. 2022, section 4.2.2): a column-parallel layer takes the gathered rows, a
row-parallel layer leaves partial sums that are reduced. The sequence-parallel layer keeps only its
own rows of the input and gathers them again in backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from solver.cluster.collectives import all_gather, all_reduce, reduce_scatter
from solver.costs.machine import Machine
from solver.costs.pipeline import Account, Op, OpKind
from solver.costs.sharding import Sharding
from solver.workload.implementation import DEFAULT_IMPLEMENTATION, Implementation

ELEMENT = 2.0
"""Bytes of an activation in bf16 or fp16."""


@dataclass
class Graph:
    """Collects the ops of one block on one device; the methods answer with the tensor they made.

    ``grouped_products``: products of single experts in its forward.
    """

    machine: Machine
    shard: Sharding
    hidden: int
    implementation: Implementation = DEFAULT_IMPLEMENTATION
    ops: list[Op] = field(default_factory=list)
    grouped_products: int = 0

    def compute(
        self,
        name: str,
        inputs: tuple[str, ...],
        forward: float,
        backward: float,
        output_bytes: float,
        reads: tuple[str, ...] = (),
        *,
        forward_bytes: float = 0.0,
        backward_bytes: float = 0.0,
        gradient_bytes: float | None = None,
    ) -> str:
        """Lay down an op that occupies the compute units; for the bytes see ``Op``."""
        op = Op(
            name,
            inputs,
            forward,
            backward,
            output_bytes,
            reads,
            forward_bytes=forward_bytes,
            backward_bytes=backward_bytes,
            gradient_bytes=gradient_bytes,
        )
        self.ops.append(op)
        return name

    def communicate(
        self,
        name: str,
        inputs: tuple[str, ...],
        forward: float,
        backward: float,
        output_bytes: float,
        account: Account,
        *,
        window: float | None = None,
        hands_on: bool = False,
    ) -> str:
        """Lay down an op that occupies the links; nobody's backward reads its own output.

        ``window``: see ``Op.window_seconds``.
        """
        self.ops.append(
            Op(
                name,
                inputs,
                forward,
                backward,
                output_bytes,
                (),
                OpKind.COMMUNICATION,
                account,
                window_seconds=window,
                hands_on=hands_on,
            )
        )
        return name

    def pointwise(
        self,
        name: str,
        inputs: tuple[str, ...],
        elements: float,
        forward_bytes: float,
        backward_bytes: float,
        reads: tuple[str, ...] = (),
    ) -> str:
        """Lay down a memory-bound op; bytes moved are per element of its output."""
        forward = self.machine.pointwise(forward_bytes * elements)
        backward = self.machine.pointwise(backward_bytes * elements)
        return self.compute(name, inputs, forward, backward, ELEMENT * elements, reads)

    def norm(self, name: str, source: str) -> str:
        """A layer norm or RMS norm: reads its input again in backward.

        Forward reads and writes once, backward reads input and gradient and writes the gradient.
        Its per-row statistics are left out, as in Korthikanti et al. 2022, section 4.1.
        """
        elements = self.shard.row_tokens * self.hidden
        return self.pointwise(name, (source,), elements, 4.0, 6.0, (source,))

    def gather(self, name: str, source: str, dgrad: float, wgrad: float) -> str:
        """Bring a column-parallel layer its input rows; in backward sum the input's gradient.

        Backward hides the second gather under the input-gradient product and the reduction under
        the weight-gradient product (Megatron-LM, core/tensor_parallel/layers.py); ``dgrad`` and
        ``wgrad`` are their seconds.
        """
        group, links = self.shard.tensor, self.machine.links
        if group.size == 1:
            return source
        size = ELEMENT * self.shard.tokens * self.hidden
        if not self.shard.sequence_parallel:
            reduced = all_reduce(size, group, links)
            backward = self.exposed(reduced, wgrad)
            return self.communicate(
                name,
                (source,),
                0.0,
                backward,
                0.0,
                Account.TENSOR_PARALLEL,
                window=max(0.0, reduced - wgrad),
                hands_on=True,
            )
        gathered = all_gather(size, group, links)
        scattered = reduce_scatter(size, group, links)
        forward = self._tensor_parallel(gathered)
        backward = self.exposed(gathered, dgrad) + self.exposed(scattered, wgrad)
        window = max(0.0, gathered - dgrad) + max(0.0, scattered - wgrad)
        return self.communicate(
            name, (source,), forward, backward, size, Account.TENSOR_PARALLEL, window=window
        )

    def reduce(self, name: str, source: str) -> str:
        """Sum a row-parallel layer's partial outputs; in backward gather the gradient's rows."""
        group, links = self.shard.tensor, self.machine.links
        if group.size == 1:
            return source
        size = ELEMENT * self.shard.tokens * self.hidden
        if not self.shard.sequence_parallel:
            forward = self._tensor_parallel(all_reduce(size, group, links))
            return self.communicate(name, (source,), forward, 0.0, size, Account.TENSOR_PARALLEL)
        forward = self._tensor_parallel(reduce_scatter(size, group, links))
        backward = self._tensor_parallel(all_gather(size, group, links))
        own = size / group.size
        return self.communicate(name, (source,), forward, backward, own, Account.TENSOR_PARALLEL)

    def residual(self, name: str, base: str, branch: str, dropout: float) -> str:
        """Add a branch to the residual stream, through dropout where there is any.

        The fused bias-dropout-add of Megatron-LM keeps a one-byte mask for backward.
        """
        elements = self.shard.row_tokens * self.hidden
        if dropout == 0.0:
            return self.pointwise(name, (base, branch), elements, 6.0, 2.0)
        seconds = self.machine.pointwise(elements)
        mask = self.compute(f"{name}_mask", (), seconds, 0.0, elements)
        return self.pointwise(name, (base, branch, mask), elements, 7.0, 5.0, (mask,))

    def exposed(self, communication: float, compute: float) -> float:
        """Seconds that a collective adds when it runs beside ``compute`` seconds of products.

        What does not fit stays; what does slows the products down (Galvatron's measured overlap
        coefficient of 1.1 to 1.3; Tessera, OSDI 2026, measured 10 to 20%).
        """
        slowdown = self.machine.calibration.software.overlap_slowdown
        return max(0.0, communication - compute) + slowdown * min(communication, compute)

    def linear(self, rows: float, columns: int, inner: int) -> tuple[float, float, float]:
        """Forward, input-gradient and weight-gradient seconds of a linear layer.

        The weight gradient is added to those of the micro-batches before: in the product's own
        kernel into fp32 (8 bytes per weight; Megatron-LM's gradient accumulation fusion), or
        apart from it.
        """
        machine = self.machine
        m = max(1, round(rows))
        forward = machine.linear(m, columns, inner)
        dgrad = machine.linear(m, inner, columns)
        wgrad = (
            machine.linear(columns, inner, m, machine.weight_gradient_bytes)
            / machine.calibration.device.weight_gradient
        )
        return forward, dgrad, wgrad

    def _tensor_parallel(self, seconds: float) -> float:
        """What is exposed of a collective that software splits into the product beside it."""
        return seconds * (1.0 - self.machine.calibration.software.tensor_parallel_overlap)
