"""Fits the efficiencies of a device to measured runs."""
