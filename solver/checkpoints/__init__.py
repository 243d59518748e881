"""How often a run should write checkpoints, and what of its speed that leaves."""
