"""Neve's own telemetry: its spans and log lines as OTLP, sent to any receiver or into its own lake."""
