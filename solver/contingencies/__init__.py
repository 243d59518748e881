"""What to do when nodes of a running plan fail, worked out before they do."""
