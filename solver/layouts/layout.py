"""A parallel layout: how the devices of a job are divided among the kinds of parallelism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Layout:
    """One complete parallel layout, every size filled.

    ``schedule`` is the name of a pipeline schedule (``solver.schedules``). ``zero_stage`` 1 is
    Megatron's distributed optimizer; 2 and 3 shard gradients and weights too (FSDP).
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
