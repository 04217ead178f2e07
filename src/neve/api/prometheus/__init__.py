"""Prometheus' HTTP API under `/prometheus/api/v1`: parameters, envelopes, routes."""
