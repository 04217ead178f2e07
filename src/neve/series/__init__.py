"""Series of metrics and streams of logs: tables that list them by day, kept current from commits."""
