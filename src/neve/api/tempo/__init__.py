"""Tempo's HTTP API: TraceQL, traces by id, tags."""
