"""Imports of OTAP Parquet."""
