"""The ids of a part: of its rows, of what these refer to, and which convention they follow."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap.ids import SPECIFICATION, offsets_of
from neve.otap.joins import NONE, Ids, ids_of
from neve.otap.parquet import opened
from neve.otap.runs import Runs
from neve.otap.tables import IDS, RESOURCE_ATTRS, SCOPE_ATTRS, STARS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.lake.config import S3Config
    from neve.otap.ids import Offsets

SHARED = ("resource", "scope")


def offsets_of_part(s3: S3Config, files: Mapping[str, Sequence[str]]) -> Offsets | None:
    """The offsets of a part's batches; none where its ids are to the specification.

    Only columns of ids are read, and not even those where all root files say what their ids are. A file that can't be
    read is passed over here: whoever reads its rows says so.
    """
    roots = [path for root in STARS for path in files.get(root, ())]
    if all(_is_as_specified(path, s3) for path in roots):
        return None
    runs = []
    for path in roots:
        with suppress(InputError):
            ids, *nested = id_columns(path, s3)
            runs.append(Runs.of(ids, nested))
    parents = [_parents(s3, files.get(table, ())) for table in (RESOURCE_ATTRS, SCOPE_ATTRS)]
    return offsets_of(Runs.joined(runs), parents) if runs else None


def _is_as_specified(path: str, s3: S3Config) -> bool:
    """Whether a root file says of itself that its ids are to the specification, as those do that we write."""
    try:
        with opened(path, s3) as file:
            told = file.schema_arrow.metadata or {}
    except InputError:
        return False
    return bool(told.get(IDS.encode()) == SPECIFICATION.encode())


def id_columns(path: str, s3: S3Config) -> tuple[Ids, Ids, Ids]:
    """The ids of a root file's rows, of their resources and of their scopes."""
    return ids_in(_read(path, s3, ("id", *(f"{name}.id" for name in SHARED))))


def ids_in(rows: pa.Table) -> tuple[Ids, Ids, Ids]:
    """The ids of root rows, of their resources and of their scopes; none where a column was left out."""
    none = np.full(rows.num_rows, NONE, dtype=np.int64)
    own = ids_of(rows.column("id")) if "id" in rows.column_names else none
    resource, scope = (_nested(rows, name, none) for name in SHARED)
    return own, resource, scope


def _nested(rows: pa.Table, name: str, none: Ids) -> Ids:
    if name not in rows.column_names or rows.schema.field(name).type.get_field_index("id") < 0:
        return none
    return ids_of(pc.struct_field(rows.column(name), "id"))


def _parents(s3: S3Config, paths: Sequence[str]) -> Ids:
    found = [np.empty(0, np.int64)]
    for path in paths:
        with suppress(InputError):
            found.append(np.unique(ids_of(_read(path, s3, ("parent_id",)).column("parent_id"))))
    return np.unique(np.concatenate(found))


def _read(path: str, s3: S3Config, columns: Sequence[str]) -> pa.Table:
    with opened(path, s3) as file:
        return file.read(columns=list(columns), use_threads=False)
