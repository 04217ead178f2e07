"""Sampling policies: load them from a collector's YAML, translate them to SQL, and evaluate them on traces."""
