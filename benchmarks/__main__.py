"""All measurements of the solver: ``python -m benchmarks``, or ``make benchmark``."""

from __future__ import annotations

from benchmarks import partition, sapp, search

partition.main()
print()
sapp.main()
print()
search.main()
