"""Translate DuckDB's SQL to Spark's: the same result, or a reason why Spark can't give it."""
