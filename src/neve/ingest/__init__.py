"""Ingestion: decode telemetry of files and streams, and write each record to its table exactly once."""
