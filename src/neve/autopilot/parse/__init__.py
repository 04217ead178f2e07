"""SQL of any engine, read into what it asks of each table."""
