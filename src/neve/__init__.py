"""Neve: a telemetry lakehouse that maintains itself.

The names of `__all__` are the public Python API (docs/python.md). Each is imported from its module at its first use:
`import neve` loads no engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.app.open_lake import open_lake
    from neve.autopilot.analyzer import QueryLogAnalyzer
    from neve.autopilot.rewrite_planner import RewritePlanner
    from neve.compact.compactor import Compactor
    from neve.errors import NeveError
    from neve.lake.lake import Lake
    from neve.otlp.codec import decode, encode
    from neve.query.service import QueryService
    from neve.reservoir.sampling.aggregate import register_udafs
    from neve.reservoir.tables.job import Sampler
    from neve.rollup.job import Rollup
    from neve.tail.selector import TailSelector

__version__ = "0.1.0"

__all__ = [
    "Compactor",
    "Lake",
    "NeveError",
    "QueryLogAnalyzer",
    "QueryService",
    "RewritePlanner",
    "Rollup",
    "Sampler",
    "TailSelector",
    "decode",
    "encode",
    "open_lake",
    "register_udafs",
]

_MODULES = {
    "Compactor": "neve.compact.compactor",
    "Lake": "neve.lake.lake",
    "NeveError": "neve.errors",
    "QueryLogAnalyzer": "neve.autopilot.analyzer",
    "QueryService": "neve.query.service",
    "RewritePlanner": "neve.autopilot.rewrite_planner",
    "Rollup": "neve.rollup.job",
    "Sampler": "neve.reservoir.tables.job",
    "TailSelector": "neve.tail.selector",
    "decode": "neve.otlp.codec",
    "encode": "neve.otlp.codec",
    "open_lake": "neve.app.open_lake",
    "register_udafs": "neve.reservoir.sampling.aggregate",
}

if not TYPE_CHECKING:  # a type checker would accept any name as an attribute of this module

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module 'neve' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    """List the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
