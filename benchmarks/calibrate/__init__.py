"""Fits the efficiencies of the cost model to published runs."""
