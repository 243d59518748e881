"""What others would choose, on the same costs."""
