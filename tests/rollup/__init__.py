"""Rollups, held against a reference in plain Python."""
