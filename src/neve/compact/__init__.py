"""Compaction: small files become files of the target size, deletes are applied, rows are laid out; no row is lost.

from neve.compact import Compactor

Compactor(lake, strategy="time_series", target_file_size="256MB").compact("telemetry.spans")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.compact.compactor import Compactor, Request
    from neve.compact.plan import Plan
    from neve.compact.result import CompactResult

__all__ = ["CompactResult", "Compactor", "Plan", "Request"]


def __getattr__(name: str) -> object:
    """The room's names; what they need is imported when they are asked for."""
    from importlib import import_module  # noqa: PLC0415

    places = {"Compactor": "compactor", "Request": "compactor", "Plan": "plan", "CompactResult": "result"}
    if name not in places:
        raise AttributeError(f"module 'neve.compact' has no attribute {name!r}")
    return getattr(import_module(f"neve.compact.{places[name]}"), name)
