"""Compaction: rewrite small files to the target size, apply deletes and lay rows out, without losing a row.

from neve.compact import Compactor

Compactor(lake, strategy="time_series", target_file_size="256MB").compact("telemetry.spans")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.compact.compactor import Compactor
    from neve.compact.plan import Plan, Request
    from neve.compact.result import CompactResult

__all__ = ["CompactResult", "Compactor", "Plan", "Request"]


def __getattr__(name: str) -> object:
    """Return a public name of the package. Its module is imported at the first access."""
    from importlib import import_module  # noqa: PLC0415

    places = {"Compactor": "compactor", "Request": "plan", "Plan": "plan", "CompactResult": "result"}
    if name not in places:
        raise AttributeError(f"module 'neve.compact' has no attribute {name!r}")
    return getattr(import_module(f"neve.compact.{places[name]}"), name)
