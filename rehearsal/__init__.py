"""Runs a plan for real, on a model of the same structure that is small enough for the machine."""
