"""The share of a layer's parameters that stands on one device."""

from __future__ import annotations

from solver.costs.sharding import Sharding
from solver.costs.states import Parameters
from solver.workload.architecture import Attention, LatentAttention, Layer, MixtureOfExperts
from solver.workload.parameters import attention_parameters, feed_forward_parameters


def layer_share(
    layer: Layer, shard: Sharding, hidden: int, attention: bool, feed_forward: bool
) -> Parameters:
    """Parameters of a layer, or of one of its halves, on one device.

    Tensor parallelism splits matrices and leaves norms whole (Shoeybi et al. 2019, section 3).
    """
    dense = expert = 0.0
    norms = 2.0 * hidden * layer.norms / 2
    if attention:
        dense += norms + _attention_share(layer.attention, shard.tensor.size, hidden)
    if feed_forward:
        part = layer.feed_forward
        dense += norms
        if isinstance(part, MixtureOfExperts):
            rest, expert = _experts_share(part, shard, hidden)
            dense += rest
        else:
            dense += feed_forward_parameters(part, hidden) / shard.tensor.size
    return Parameters(dense, expert)


def _attention_share(attention: Attention | LatentAttention, tensor: int, hidden: int) -> float:
    """Split by heads. Latent attention's down projections are replicated, and so are key and value
    heads that are fewer than the ranks.
    """
    total = attention_parameters(attention, hidden)
    if isinstance(attention, LatentAttention):
        down = attention.key_value_rank + attention.rope_head_dim + (attention.query_rank or 0)
        return hidden * down + (total - hidden * down) / tensor
    if attention.key_value_heads >= tensor:
        return total / tensor
    keys = 2 * hidden * attention.key_value_heads * attention.head_dim
    own = 2 * hidden * attention.head_dim
    return (total - keys) / tensor + own


def _experts_share(part: MixtureOfExperts, shard: Sharding, hidden: int) -> tuple[float, float]:
    """What every rank of the stage holds alike, and what its experts hold."""
    routed = part.experts * hidden * part.hidden * (3 if part.gated else 2)
    router = hidden * part.experts
    shared = feed_forward_parameters(part, hidden) - routed - router
    alike = router + shared / shard.tensor.size
    return alike, routed / shard.expert_tensor.size / shard.expert.size
