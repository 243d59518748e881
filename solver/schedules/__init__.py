"""The fixed orders of pipeline work, their exact simulation and critical paths."""
