"""Statements: read into a tree that is known to the last node, and written for an engine."""
