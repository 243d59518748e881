"""What a parallel layout is and when it is legal."""

from solver.layouts.completions import check, families, layouts
from solver.layouts.family import Family, listed
from solver.layouts.layout import Layout
from solver.layouts.profiled import profile_layout

__all__ = ["Family", "Layout", "check", "families", "layouts", "listed", "profile_layout"]
