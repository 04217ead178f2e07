"""Engines that run statements: DuckDB in this process or in processes of its own, and Spark."""
