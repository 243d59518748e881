"""Stagecut's solver: a library that plans pipeline training and knows nothing of HTTP or databases."""
