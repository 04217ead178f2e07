"""Loki's HTTP API under `/loki/api/v1`: parameters, errors, routes, live tail."""
