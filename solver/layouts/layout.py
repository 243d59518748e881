"""A parallel layout: how the devices of a job are divided among the kinds of parallelism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Layout:
    """One complete parallel layout, every size filled.

    ``schedule`` is the name of a pipeline schedule (``solver.schedules``). ``zero_stage`` 1 is
    Megatron's distributed optimizer; 2 and 3 shard gradients and weights too (FSDP).
    ``expert_tensor_parallel``: devices that share each expert, 0 for as many as
    ``tensor_parallel``. ``interleaving_group``: micro-batches that an interleaved schedule takes
    through a chunk in a row, 0 for as many as pipeline devices. ``sharding_group``: replicas over
    which states are sharded, 0 for all of them. ``rank_order``: kinds of parallelism from the one
    that varies fastest over the ranks. ``stage_pools``: where devices differ, pool and number of
    stages in the order of the pipeline. ``context_method``: how context-parallel devices bring
    queries and keys together; means nothing where there is one.
    """

    tensor_parallel: int
    pipeline_parallel: int
    context_parallel: int
    expert_parallel: int
    data_parallel: int
    virtual_stages: int
    micro_batch_size: int
    sequence_parallel: bool
    zero_stage: int
    schedule: str
    expert_tensor_parallel: int = 0
    interleaving_group: int = 0
    sharding_group: int = 0
    rank_order: str = "tp-cp-ep-dp-pp"
    stage_pools: tuple[tuple[int, int], ...] = ()
    context_method: str = "ring"

    @property
    def replicas(self) -> int:
        """Devices that hold copies of the same dense weights."""
        return self.data_parallel * self.context_parallel

    @property
    def state_copies(self) -> int:
        """How often the sharded states are held."""
        return self.replicas // (self.sharding_group or self.replicas)

    @property
    def pipeline_inside(self) -> bool:
        """Whether neighbouring ranks are stages of a pipeline rather than replicas."""
        return self.rank_order.endswith("dp")

    @property
    def expert_shards(self) -> int:
        """Devices that share each expert."""
        return self.expert_tensor_parallel or self.tensor_parallel

    @property
    def devices(self) -> int:
        """Devices that the layout occupies (expert parallelism folds into the others)."""
        return (
            self.tensor_parallel
            * self.pipeline_parallel
            * self.context_parallel
            * self.data_parallel
        )

    def micro_batches(self, global_batch_size: int) -> int:
        """Micro-batches per pipeline and iteration; the division is exact for a legal layout."""
        return global_batch_size // (self.data_parallel * self.micro_batch_size)
