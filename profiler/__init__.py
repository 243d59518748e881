"""Measures a model's layers with PyTorch on this machine and writes the profile that is planned."""
