"""Tempo's HTTP API without a server: parameters, answers, documents."""
