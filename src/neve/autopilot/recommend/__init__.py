"""Recommendation of a layout for a table, with its reasons and the rejected candidates."""
