"""Erasure: remove records by a condition from every copy that the lake holds."""
