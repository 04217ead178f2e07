"""OTAP Parquet: telemetry as a star schema of files, as OpenTelemetry Arrow writes it."""
