"""The solver library: plans pipeline training, and knows nothing of HTTP or databases."""
