"""Batches: many requests with what is expected of their plans, and the reports on them."""
