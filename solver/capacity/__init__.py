"""What a job is worth on every allocation that a scheduler could give it."""
