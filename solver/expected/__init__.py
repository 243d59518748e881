"""What a monitor may expect of a running plan, and what measurements say of it."""
