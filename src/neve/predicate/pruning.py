"""Prune manifests, partitions and files that can't match an expression, by partition values and column bounds."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol, cast

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
from pyiceberg.typedef import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata

# Bounds that were written before a column was widened have fewer bytes than its type has now.
UNREADABLE = (struct.error, TypeError, ValueError)


class FileStatistics(Protocol):
    """A file with statistics of its columns, by the names that pyiceberg's evaluators expect of a `DataFile`."""

    @property
    def spec_id(self) -> int:
        """The id of the partition spec."""

    @property
    def partition(self) -> tuple[Any, ...]:
        """The partition values."""


class Pruner:
    """One expression over one table. Every result means "may match", never "does match"."""

    def __init__(self, metadata: TableMetadata, expression: BooleanExpression) -> None:
        self._metadata = metadata
        self._schema = metadata.schema()
        self._expression = expression
        self._manifests: dict[int, Callable[[ManifestFile], bool]] = {}
        self._partitions: dict[int, Callable[[Any], bool]] = {}
        self._decided: dict[int, bool] = {}
        self._known: dict[tuple[int, tuple[Any, ...]], bool] = {}
        self._listed: dict[str, bool] = {}
        self._bounds = _InclusiveMetricsEvaluator(self._schema, expression, case_sensitive=True)
        self._is_open = isinstance(expression, AlwaysTrue)

    def manifest(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest may list matching files, by its partition summaries. Evaluated once for each."""
        path = manifest.manifest_path
        if path not in self._listed:
            self._listed[path] = self._evaluate_manifest(manifest)
        return self._listed[path]

    def _evaluate_manifest(self, manifest: ManifestFile) -> bool:
        spec = manifest.partition_spec_id
        if spec not in self._manifests:
            self._manifests[spec] = manifest_evaluator(
                self._metadata.specs()[spec], self._schema, self._project(spec), case_sensitive=True
            )
        return self._manifests[spec](manifest)

    def partition(self, spec: int, partition: tuple[Any, ...]) -> bool:
        """Return whether a partition may contain matching rows. Evaluated once for all of its files."""
        key = (spec, partition)
        if key not in self._known:
            self._known[key] = self._evaluator(spec)(Record(*partition))
        return self._known[key]

    def file(self, entry: FileStatistics) -> bool:
        """Return whether a file may contain matching rows, by its partition and its column bounds."""
        if self._is_open:
            return True
        if not self.partition(entry.spec_id, entry.partition):
            return False
        if self._is_decided_by_partition(entry.spec_id):
            return True
        try:
            return self._bounds.eval(cast("DataFile", entry))
        except UNREADABLE:
            return True

    def _is_decided_by_partition(self, spec: int) -> bool:
        """Return whether all columns of the expression are partition values, so that bounds add no information."""
        if spec not in self._decided:
            parts = self._metadata.specs()[spec].fields
            whole = {part.source_id for part in parts if isinstance(part.transform, IdentityTransform)}
            self._decided[spec] = extract_field_ids(self._bounds.expr) <= whole
        return self._decided[spec]

    def _evaluator(self, spec: int) -> Callable[[Any], bool]:
        if spec not in self._partitions:
            fields = self._metadata.specs()[spec].partition_type(self._schema).fields
            self._partitions[spec] = expression_evaluator(Schema(*fields), self._project(spec), case_sensitive=True)
        return self._partitions[spec]

    def _project(self, spec: int) -> BooleanExpression:
        project = inclusive_projection(self._schema, self._metadata.specs()[spec], case_sensitive=True)
        return project(self._expression)
