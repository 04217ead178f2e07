"""Which files may hold rows that satisfy an expression, as far as partition values and column bounds tell."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    expression_evaluator,
    extract_field_ids,
    inclusive_projection,
    manifest_evaluator,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from neve.query.scan.manifests import as_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata

    from neve.query.scan.manifests import Entry

# Bounds that were written before a column was widened have fewer bytes than its type now.
UNREADABLE = (struct.error, TypeError, ValueError)


class Pruner:
    """One expression over one table; every answer is "may match", never "does match"."""

    def __init__(self, metadata: TableMetadata, expression: BooleanExpression) -> None:
        self._metadata = metadata
        self._schema = metadata.schema()
        self._expression = expression
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[Any], bool]] = {}
        self._told: dict[int, bool] = {}
        self._known: dict[tuple[int, tuple[Any, ...]], bool] = {}
        self._bounds = _InclusiveMetricsEvaluator(self._schema, expression, case_sensitive=True)
        self._is_open = isinstance(expression, AlwaysTrue)

    def manifest(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may list such files, by its partition summaries."""
        spec = manifest.partition_spec_id
        if spec not in self._manifests:
            self._manifests[spec] = manifest_evaluator(
                self._metadata.specs()[spec], self._schema, self._projected(spec), case_sensitive=True
            )
        return self._manifests[spec](manifest)

    def partition(self, spec: int, partition: tuple[Any, ...]) -> bool:
        """Whether a partition may hold such rows; asked once for all files of it."""
        key = (spec, partition)
        if key not in self._known:
            self._known[key] = self._evaluator(spec)(as_record(partition))
        return self._known[key]

    def file(self, entry: Entry) -> bool:
        """Whether a file may hold such rows, by its partition and its column bounds."""
        if self._is_open:
            return True
        if not self.partition(entry.spec_id, entry.partition):
            return False
        if self._is_told_by_partition(entry.spec_id):
            return True
        try:
            return self._bounds.eval(cast("DataFile", entry))
        except UNREADABLE:
            return True

    def _is_told_by_partition(self, spec: int) -> bool:
        """Whether the values of all columns in question are partition values, so that bounds tell nothing more."""
        if spec not in self._told:
            parts = self._metadata.specs()[spec].fields
            whole = {part.source_id for part in parts if isinstance(part.transform, IdentityTransform)}
            self._told[spec] = extract_field_ids(self._bounds.expr) <= whole
        return self._told[spec]

    def _evaluator(self, spec: int) -> Callable[[Any], bool]:
        if spec not in self._partitions:
            fields = self._metadata.specs()[spec].partition_type(self._schema).fields
            self._partitions[spec] = expression_evaluator(Schema(*fields), self._projected(spec), case_sensitive=True)
        return self._partitions[spec]

    def _projected(self, spec: int) -> BooleanExpression:
        project = inclusive_projection(self._schema, self._metadata.specs()[spec], case_sensitive=True)
        return project(self._expression)
