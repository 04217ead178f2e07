"""OTAP Parquet: the star schema of OpenTelemetry with Apache Arrow, in files."""
