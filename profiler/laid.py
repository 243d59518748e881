"""Ops of a block as they are laid down in PyTorch, under the names of the cost model's tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from solver.targets.pytorch_runtime import Op
from solver.workload.architecture import Norm


@dataclass(frozen=True)
class Setting:
    """What is measured: one micro-batch of a model on one of ``tensor_parallel`` devices.

    Ranks of a tensor-parallel group are alike, so one of them stands for all: it holds its share of
    every matrix's rows or columns, and all tokens. ``expert_parallel`` likewise: a rank holds its
    share of the experts, and gets as many tokens as it sends.
    """

    hidden: int
    sequence: int
    micro_batch: int
    tensor_parallel: int
    expert_parallel: int
    dtype: torch.dtype
    device: torch.device

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.sequence

    def share(self, width: int) -> int:
        """One rank's part of a width that tensor parallelism splits."""
        return max(1, width // self.tensor_parallel)


@dataclass
class Laid:
    """The ops of one block; the methods answer with the name of the tensor they make.

    ``parameters``: of each op. ``constants``: tensors that every micro-batch shares, such as the
    angles of a rotary embedding; nobody keeps them for a backward.
    """

    setting: Setting
    ops: list[Op] = field(default_factory=list)
    parameters: dict[str, tuple[nn.Parameter, ...]] = field(default_factory=dict)
    constants: list[Tensor] = field(default_factory=list)

    @property
    def parameter_count(self) -> int:
        """Elements of all parameters."""
        return sum(one.numel() for held in self.parameters.values() for one in held)

    def op(
        self,
        name: str,
        inputs: tuple[str, ...],
        function: Callable[..., Tensor],
        *modules: nn.Module,
    ) -> str:
        """Lay down an op that holds these modules' parameters."""
        for module in modules:
            module.to(device=self.setting.device, dtype=self.setting.dtype)
        self.parameters[name] = tuple(one for module in modules for one in module.parameters())
        self.ops.append(Op(name, inputs, function))
        return name

    def linear(self, name: str, source: str, inner: int, columns: int, bias: bool = False) -> str:
        """A linear layer."""
        layer = nn.Linear(
            inner, columns, bias=bias, device=self.setting.device, dtype=self.setting.dtype
        )
        return self.op(name, (source,), layer, layer)

    def norm(self, name: str, source: str, kind: Norm, width: int | None = None) -> str:
        """A norm over the last dimension."""
        layer = normalisation(kind, width or self.setting.hidden)
        return self.op(name, (source,), layer, layer)

    def residual(self, name: str, base: str, branch: str, dropout: float) -> str:
        """Add a branch to the residual stream, through dropout where there is any."""
        if dropout == 0.0:
            return self.op(name, (base, branch), torch.add)
        return self.op(
            name,
            (base, branch),
            lambda kept, added: kept + functional.dropout(added, dropout),
        )

    def constant(self, value: Tensor) -> Tensor:
        """A tensor that no micro-batch owns, on the device."""
        placed = value.to(self.setting.device)
        self.constants.append(placed)
        return placed


def normalisation(kind: Norm, width: int) -> nn.Module:
    """The module of a norm."""
    return nn.RMSNorm(width) if kind is Norm.RMS else nn.LayerNorm(width)
