"""Tests of sampling OTAP Parquet."""
