"""Deliver alerts to Alertmanagers and webhooks: silences, requests, and a queue for each destination."""
