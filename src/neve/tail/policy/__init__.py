"""Policies: read from a collector's YAML, asked of traces, answered with reasons and probabilities."""
