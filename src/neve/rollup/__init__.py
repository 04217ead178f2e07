"""Rollups of metrics by minute, five minutes, hour and day: exact, and kept current."""
