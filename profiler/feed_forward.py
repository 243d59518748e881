"""The MLP half of a layer in PyTorch: dense, and experts under an even load."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from profiler.laid import Laid
from solver.workload.architecture import FeedForward, Layer, MixtureOfExperts

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
}


def feed_forward_branch(laid: Laid, layer: Layer, normed: str) -> str:
    """From the normed input to the MLP's output."""
    part = layer.feed_forward
    if isinstance(part, FeedForward):
        output = _dense(laid, "feed_forward", part, part.hidden, normed)
    else:
        output = _experts(laid, part, normed)
    if layer.norms > 2:
        return laid.norm("feed_forward_post_norm", output, layer.norm)
    return output


def _dense(
    laid: Laid, name: str, part: FeedForward | MixtureOfExperts, width: int, normed: str
) -> str:
    setting = laid.setting
    inner = setting.share(width)
    columns = 2 * inner if part.gated else inner
    wide = laid.linear(f"{name}_in", normed, setting.hidden, columns, part.bias)
    active = _activation(laid, name, wide, part)
    return laid.linear(f"{name}_out", active, inner, setting.hidden, part.bias)


def _activation(laid: Laid, name: str, wide: str, part: FeedForward | MixtureOfExperts) -> str:
    """The activation; a gated one as gate and product, each a kernel of its own."""
    function = ACTIVATIONS.get(part.activation, functional.gelu)
    if not part.gated:
        return laid.op(f"{name}_activation", (wide,), function)
    gate = laid.op(f"{name}_gate", (wide,), lambda both: function(both.chunk(2, dim=-1)[0]))
    return laid.op(
        f"{name}_activation",
        (gate, wide),
        lambda active, both: active * both.chunk(2, dim=-1)[1],
    )


class _Grouped(nn.Module):
    """A product of every expert with its own rows, which are equally many."""

    def __init__(self, experts: int, inner: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, inner, columns) * inner**-0.5)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of (experts x rows, inner)."""
        experts = self.weight.shape[0]
        return torch.bmm(rows.unflatten(0, (experts, -1)), self.weight).flatten(0, 1)


def _experts(laid: Laid, moe: MixtureOfExperts, normed: str) -> str:
    """Router, permutation, grouped products, and the way back.

    Every expert gets equally many tokens. What experts on other ranks would exchange is not
    measured: one device has nobody to exchange with.
    """
    setting, hidden, per_token = laid.setting, laid.setting.hidden, moe.experts_per_token
    local = max(1, moe.experts // setting.expert_parallel)
    copies = setting.tokens * per_token
    rows = -(-copies // local)
    inner = setting.share(moe.hidden)
    router = nn.Linear(hidden, moe.experts, bias=moe.router_bias)

    def chances(tokens: Tensor) -> Tensor:
        return functional.softmax(router(tokens).float(), -1).topk(per_token).values.flatten(0, 1)

    weights = laid.op("router", (normed,), chances, router)

    def dispatched(tokens: Tensor, _: Tensor) -> Tensor:
        place = torch.arange(local * rows, device=tokens.device) % setting.tokens
        return tokens.flatten(0, 1).index_select(0, place)

    permuted = laid.op("expert_permute", (normed, weights), dispatched)
    into = _Grouped(local, hidden, 2 * inner if moe.gated else inner)
    wide = laid.op("expert_in", (permuted,), into, into)
    active = _activation(laid, "expert", wide, moe)
    out = _Grouped(local, inner, hidden)
    output = laid.op("expert_out", (active,), out, out)

    def merged(rows_of_experts: Tensor, share: Tensor) -> Tensor:
        own = rows_of_experts[:copies].unflatten(0, (per_token, -1))
        total = (own * share.t().unsqueeze(-1).to(own.dtype)).sum(0)
        return total.unflatten(0, (setting.micro_batch, -1))

    whole = laid.op("expert_unpermute", (output, weights), merged)
    if not moe.shared_hidden:
        return whole
    shared = _dense(laid, "shared_expert", moe, moe.shared_hidden, normed)
    return laid.op("shared_expert_add", (whole, shared), torch.add)
