"""Reads Megatron-LM's own flags: the model, and the run that they describe."""

from __future__ import annotations

from solver.workload.megatron.completion import completed
from solver.workload.megatron.run import MegatronRun, read_megatron_args

__all__ = ["MegatronRun", "completed", "read_megatron_args"]
