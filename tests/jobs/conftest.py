"""The stores that work is kept in."""

from tests.contracts.stores import documents, store

__all__ = ["documents", "store"]
