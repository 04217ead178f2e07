"""Sampling of OTAP Parquet: from a star of tables to the same tables, smaller."""
