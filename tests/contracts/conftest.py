"""The lakes that the contracts run over."""

from tests.contracts.lakes import any_lake

__all__ = ["any_lake"]
