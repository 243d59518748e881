"""Seconds and bytes of every op, tensor and state under a layout."""
