"""Ingestion of streams: one commit contains positions and records, so that a repeated batch adds nothing."""
