"""What a parallel layout is and when it is legal."""

from solver.layouts.completions import check, layouts
from solver.layouts.layout import Layout
from solver.layouts.profiled import profile_layout

__all__ = ["Layout", "check", "layouts", "profile_layout"]
