"""Loki's HTTP API without a server: parameters in, JSON out. Query workers run it (`program.py`)."""
