"""What is trained: architectures, and the readers that make them from other people's formats."""
