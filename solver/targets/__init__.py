"""What each training framework can execute, and its configuration."""
