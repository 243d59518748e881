"""Kept bytes and FLOPs against PyTorch itself, at true size, within one percent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from solver.cluster.cluster import Cluster  # noqa: E402
from solver.cluster.device import device  # noqa: E402
from solver.costs.calibration import calibration  # noqa: E402
from solver.costs.model import pipeline_costs, work  # noqa: E402
from solver.costs.pipeline import Block  # noqa: E402
from solver.layouts.layout import Layout  # noqa: E402
from solver.recompute.choice import keep_all  # noqa: E402
from solver.recompute.policies import full, selective  # noqa: E402
from solver.request import AttentionKernel, Training  # noqa: E402
from solver.workload.architecture import (  # noqa: E402
    Architecture,
    Attention,
    FeedForward,
    LatentAttention,
    Layer,
    MixtureOfExperts,
    Norm,
    Positions,
)
from solver.workload.implementation import Implementation  # noqa: E402
from tests.solver.costs.pytorch import layers  # noqa: E402

BATCH, SEQUENCE, HIDDEN, HEADS, WIDTH = 2, 4096, 4096, 32, 128
LAYOUT = Layout(1, 1, 1, 1, 1, 1, BATCH, False, 0, "1f1b")


@dataclass(frozen=True)
class Case:
    """A layer as the cost model and as PyTorch describe it."""

    attention: Attention | LatentAttention
    feed_forward: FeedForward | MixtureOfExperts
    module: str
    fused: bool = True
    positions: Positions = Positions.ROTARY

    def layer(self) -> Layer:
        return Layer(self.attention, self.feed_forward, norm=Norm.LAYER)

    def in_pytorch(self) -> layers.Layer:
        part = self.feed_forward
        if isinstance(self.attention, LatentAttention):
            own = self.attention
            ranks = (own.query_rank or 0, own.key_value_rank)
            widths = (own.nope_head_dim, own.rope_head_dim, own.value_head_dim)
            attention: Any = layers.LatentAttention(HIDDEN, own.heads, ranks, widths)
        else:
            attention = layers.GroupedAttention(
                HIDDEN,
                self.attention.heads,
                self.attention.key_value_heads,
                self.attention.head_dim,
                rotary=self.positions is Positions.ROTARY,
            )
        if isinstance(part, MixtureOfExperts):
            inner: Any = layers.Experts(HIDDEN, part.hidden, part.experts, part.experts_per_token)
        else:
            inner = layers.FeedForward(HIDDEN, part.hidden, gated=part.gated)
        return layers.Layer(HIDDEN, attention, inner, fused=self.fused)


PLAIN = Attention(HEADS, HEADS, WIDTH)
GROUPED = Attention(HEADS, 8, WIDTH)
LATENT = LatentAttention(HEADS, 1536, 512, 128, 64, 128)
GELU = FeedForward(4 * HIDDEN, gated=False, activation="gelu")
SWIGLU = FeedForward(14336, gated=True)
SPARSE = MixtureOfExperts(64, 8, 1408, gated=True)

CASES = {
    "dense": Case(PLAIN, GELU, "mlp", positions=Positions.LEARNED),
    "dense, unfused attention": Case(
        PLAIN, GELU, "core_attn", fused=False, positions=Positions.LEARNED
    ),
    "grouped queries": Case(GROUPED, GELU, "mlp"),
    "grouped queries, core attention": Case(GROUPED, GELU, "core_attn"),
    "swiglu": Case(GROUPED, SWIGLU, "mlp"),
    "experts": Case(GROUPED, SPARSE, "moe"),
    "latent attention": Case(LATENT, SWIGLU, "mlp", fused=False),
    "latent attention and experts": Case(LATENT, SPARSE, "moe", fused=False),
}
NAMES = list(CASES)


def _cluster() -> Cluster:
    unit = device("H100-SXM5-80GB")
    return Cluster(unit, 1, 1, unit.memory_bytes, unit.inter_node_bytes_per_second, 1)


def _training(case: Case) -> Training:
    kernel = AttentionKernel.FLASH if case.fused else AttentionKernel.UNFUSED
    return Training(sequence_length=SEQUENCE, global_batch_size=BATCH, attention=kernel)


def _architecture(case: Case) -> Architecture:
    return Architecture(
        "one", HIDDEN, 128, ((case.layer(), 1),), tied_embeddings=False, positions=case.positions
    )


def _block(case: Case) -> Block:
    """The layer's block with PyTorch's own activations, op by op."""
    found = calibration("H100-SXM5-80GB", "fused")
    eager = replace(found, software=replace(found.software, fused_activation=False))
    costs = pipeline_costs(
        _architecture(case),
        _cluster(),
        _training(case),
        LAYOUT,
        efficiencies=lambda _: eager,
        implementation=Implementation(fused_activation=False),
    )
    return next(block for block in costs.blocks if block.name == "layer")


def _kept_in_pytorch(case: Case, module: str) -> int:
    with FakeTensorMode():
        layer = case.in_pytorch()
        x = torch.empty(BATCH, SEQUENCE, HIDDEN, dtype=layers.DTYPE, requires_grad=True)
        with layers.kept_bytes(layer) as kept:
            output = layers.recomputed(layer, x) if module == "full" else layer(x, module)
            assert output.shape == x.shape
            return kept()


@pytest.mark.parametrize("name", NAMES)
def test_what_autograd_keeps_without_recompute(name: str) -> None:
    case = CASES[name]
    assert keep_all(_block(case)).kept_bytes == pytest.approx(_kept_in_pytorch(case, ""), rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_what_autograd_keeps_under_selective_recompute(name: str) -> None:
    case = CASES[name]
    choice = selective(_block(case), (case.module,))
    assert choice.kept_bytes == pytest.approx(_kept_in_pytorch(case, case.module), rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_what_autograd_keeps_under_full_recompute(name: str) -> None:
    case = CASES[name]
    assert full(_block(case)).kept_bytes == pytest.approx(_kept_in_pytorch(case, "full"), rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_flops_of_forward_and_backward(name: str) -> None:
    case = replace(CASES[name], fused=False)  # PyTorch does not count fused attention on CPUs
    with FakeTensorMode(), FlopCounterMode(display=False) as counter:
        layer = case.in_pytorch()
        x = torch.empty(BATCH, SEQUENCE, HIDDEN, dtype=layers.DTYPE, requires_grad=True)
        layer(x).sum().backward()
        counted = counter.get_total_flops()
    model = work(_architecture(case), _cluster(), _training(case), LAYOUT)
    tokens = BATCH * SEQUENCE
    head = 3 * 2.0 * HIDDEN * 128 * tokens
    assert model.model_flops - head + _masked(case) == pytest.approx(counted, rel=0.01)


def _masked(case: Case) -> float:
    """FLOPs of the masked half, which PyTorch counts and model FLOPs leave out.

    Per query and head: half a sequence of keys, two products in forward and four in backward.
    """
    attention = case.attention
    if isinstance(attention, LatentAttention):
        query, value = attention.nope_head_dim + attention.rope_head_dim, attention.value_head_dim
    else:
        query = value = attention.head_dim
    pairs = BATCH * attention.heads * SEQUENCE * SEQUENCE
    return 3 * 2.0 * pairs * (query + value) / 2
