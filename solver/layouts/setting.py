"""What a layout has to suit: the model, the devices and the training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt

from solver.workload.architecture import Architecture, Attention, FeedForward, MixtureOfExperts


@dataclass(frozen=True)
class Setting:
    """What a layout must suit: the model, the devices and the training run.

    ``all_devices``: the layout must occupy every device (some size was left to the solver), not
    just fit. ``overlaps_exchange``: experts' tokens are exchanged beside another micro-batch's
    products.
    """

    architecture: Architecture
    devices: int
    sequence_length: int
    global_batch_size: int
    all_devices: bool
    overlaps_exchange: bool = False
    heads: frozenset[int] = field(init=False)
    key_value_heads: frozenset[int] = field(init=False)
    widths: frozenset[int] = field(init=False)
    experts: frozenset[int] = field(init=False)
    expert_widths: frozenset[int] = field(init=False)
    windowed: bool = field(init=False)

    def __post_init__(self) -> None:
        layers = [layer for layer, _ in self.architecture.layers]
        attentions = [layer.attention for layer in layers]
        grouped = [part for part in attentions if isinstance(part, Attention)]
        feed_forwards = [layer.feed_forward for layer in layers]
        sparse = [part for part in feed_forwards if isinstance(part, MixtureOfExperts)]
        dense = [part for part in feed_forwards if isinstance(part, FeedForward)]
        widths = {part.hidden for part in sparse} | {part.hidden for part in dense}
        widths |= {part.shared_hidden for part in sparse if part.shared_hidden}
        for name, values in (
            ("heads", {part.heads for part in attentions}),
            ("key_value_heads", {part.key_value_heads for part in grouped}),
            ("widths", widths),
            ("experts", {part.experts for part in sparse}),
            ("expert_widths", {part.hidden for part in sparse}),
        ):
            object.__setattr__(self, name, frozenset(values))
        windows = [part.window for part in grouped if part.window is not None]
        windowed = any(window < self.sequence_length for window in windows)
        object.__setattr__(self, "windowed", windowed)


def divisors(number: int) -> list[int]:
    """The divisors of ``number``, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]
