"""Ingest: files in, records in the tables exactly once."""
