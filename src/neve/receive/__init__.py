"""Receiver: authenticate, limit and check a request, store its bytes in the raw zone, then respond."""
