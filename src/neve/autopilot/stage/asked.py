"""The data files that logged queries read as a table lies now, from its manifests alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.autopilot.estimate.baseline import FILES_AT_ONCE, spec_views
from neve.autopilot.estimate.columns import types_of
from neve.autopilot.estimate.compiled import ALWAYS, compile_filters
from neve.autopilot.estimate.files import table_files
from neve.autopilot.parse.trees import leaves_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.estimate.compiled import Compiled
    from neve.autopilot.estimate.files import SpecFiles
    from neve.autopilot.workload import Filter, Query


def filters_of(table: str, queries: Iterable[Query]) -> tuple[Filter, ...]:
    """What queries ask of a table, each filter once."""
    return tuple(dict.fromkeys(use.filter for query in queries for use in query.uses if use.table == table))


def files_read(table: Table, filters: Sequence[Filter]) -> frozenset[str]:
    """The paths of main's files that at least one filter can't rule out, neither by partition nor by bounds.

    A filter that no statistics can answer reads everything, however rows lie: it says nothing about any file.
    """
    names = sorted({test.column for one in filters for test in leaves_of(one)})
    types = types_of(table.schema(), names)
    every = compile_filters(filters, types)
    helped = [one for one, root in zip(every.filters, every.roots, strict=True) if root != ALWAYS]
    if not helped:
        return frozenset()
    compiled = compile_filters(helped, types)
    specs = table_files(table, names).specs.values()
    return frozenset(path for spec in specs for path in _paths(table, compiled, spec))


def _paths(table: Table, compiled: Compiled, spec: SpecFiles) -> Iterator[str]:
    views = spec_views(table, compiled, spec)
    for first in range(0, len(spec.paths), FILES_AT_ONCE):
        part = slice(first, first + FILES_AT_ONCE)
        paths = spec.paths[part]
        matches = compiled.matches([[one.chosen(part) for one in view] for view in views], len(paths))
        yield from (paths[place] for place in np.flatnonzero(matches.any(axis=0)))
