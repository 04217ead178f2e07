"""Samples of the lake's own logs and spans, in tables of the lake."""
