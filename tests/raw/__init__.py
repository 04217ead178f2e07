"""The raw zone."""
