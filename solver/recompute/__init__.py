"""What a block keeps and what it recomputes: the frontier of choices, and named policies."""
