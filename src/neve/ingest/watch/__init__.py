"""Ingestion of announced files: object stores and users send events, and the files that they name are ingested."""
