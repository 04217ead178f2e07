"""Jaeger's HTTP API without a server: services, operations, traces and dependencies."""
