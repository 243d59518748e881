"""All measurements of the solver: ``python -m benchmarks``, or ``make benchmark``."""

from __future__ import annotations

from benchmarks import partition, search

partition.main()
print()
search.main()
