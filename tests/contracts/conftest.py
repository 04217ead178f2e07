"""The lakes and the stores that the contracts run over."""

from tests.contracts.lakes import any_lake
from tests.contracts.stores import documents, store

__all__ = ["any_lake", "documents", "store"]
