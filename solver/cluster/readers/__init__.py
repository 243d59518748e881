"""Readers of the formats in which schedulers, fabrics and nodes describe themselves."""
