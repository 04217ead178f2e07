"""Engines that run statements: DuckDB in this process, DuckDB in worker processes, and Spark."""
