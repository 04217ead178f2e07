"""Statements: parsed into a tree of known nodes only, and written for an engine."""
