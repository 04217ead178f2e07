"""Ingestion of files: find them, skip known content by the ledger, decode them on Spark, commit each batch once."""
