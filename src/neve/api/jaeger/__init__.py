"""Jaeger's HTTP API: routes and errors."""
