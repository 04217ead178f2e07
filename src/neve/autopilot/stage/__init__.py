"""A new layout tried on a branch."""
