"""Query: SQL over the lake."""
