"""Which nodes a plan is put on, and in which order of ranks."""
