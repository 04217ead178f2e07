"""Metrics by minute, five minutes, hour and day: exact, and always current."""
