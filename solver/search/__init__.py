"""Legal layouts, their lower bounds, and the search over them."""
