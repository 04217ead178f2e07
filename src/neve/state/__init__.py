"""Shared state of Neve's processes: documents, leases, API keys and the message bus, and the stores that hold them."""
