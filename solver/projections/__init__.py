"""Finished plans as other frameworks can run them."""
