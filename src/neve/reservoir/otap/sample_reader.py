"""Reader of a sample folder: kept records with their adjusted counts, group and value, as input of estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from neve.errors import InputError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.folder import list_folder
from neve.otap.part_reader import PartFiles, PartReader, infer_part_offsets
from neve.otap.star_rows import ids_of
from neve.otap.tables import RESOURCE_ATTRS, STARS, schema
from neve.reservoir.otap.ledger import Ledger
from neve.reservoir.otap.root_files import scheme_of, times_of
from neve.reservoir.weights import ATTRIBUTE, attributes_of, parse_numbers
from neve.reservoir.windows import nanos_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.star_rows import Ids, StarRows

ROWS = 100_000
ALIASES = {"duration": "duration_time_unix_nano"}
SHARED_KEYS = ("part", "id")


@dataclass(frozen=True)
class SampleRequest:
    """Request for records of a sample: the attribute to group by, the value, and the time.

    As in a run, windows count that end after `since` and begin before `until`.
    """

    by: str | None = None
    of: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def detect_signal(folder: str, s3: S3Config) -> str:
    """Return the signal of a sample, from the root table that exists."""
    filesystem, base = resolve_filesystem(folder.rstrip("/"), s3)
    found = [signal for signal in STARS if signal in list_folder(base, filesystem)]
    if len(found) != 1:
        raise InputError(
            f"{folder} has {' and '.join(found) or 'neither logs nor spans'}",
            hint="name a folder with the sample of one signal",
        )
    return found[0]


def read_sample_rows(folder: str, request: SampleRequest, s3: S3Config) -> pa.Table:
    """Read kept records as input of `neve.reservoir.estimate.sample.Sample.of`.

    If the sampler's decisions are beside the tables, they give the original weights. A foreign sample has none.
    """
    folder, signal = folder.rstrip("/"), detect_signal(folder, s3)
    rows = pa.concat_tables(_records(folder, signal, request, s3), promote_options="default")
    decisions = read_decisions(folder, signal, s3)
    if decisions is None:
        return _times_within(rows, request).drop_columns([*SHARED_KEYS, "time"])
    known = decisions.join(rows.drop_columns(["adjusted", "time"]), list(SHARED_KEYS), join_type="inner")
    if known.num_rows != rows.num_rows:
        raise InputError(
            f"{rows.num_rows:,} records in {folder}, {known.num_rows:,} with a decision",
            hint="a window is being written, other programs added files, or some windows were not sampled: "
            "`neve reservoir inspect` lists them, `neve reservoir run --again` samples them again",
        )
    return _windows_within(_with_threshold(known), request)


def read_grouping(folder: str, signal: str, s3: S3Config) -> tuple[str, ...]:
    """Return the attributes that define the groups of a sample; empty if it has none, as a foreign sample."""
    found = {one.by for one in Ledger.of(folder, signal, s3).read_windows().values()}
    if len(found) > 1 or None in found:
        how = "by a query" if found == {None} else "by several settings"
        raise InputError(
            f"{folder} was sampled {how}, which do not define groups of the full data",
            hint="name an attribute with --by",
        )
    return (found.pop() or ()) if found else ()


def read_decisions(folder: str, signal: str, s3: S3Config) -> pa.Table | None:
    """Return the sampler's decisions about the kept records."""
    filesystem, base = resolve_filesystem(folder, s3)
    path = f"{base}/_neve/decisions/{signal}"
    found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    paths = sorted(info.path for info in found if info.path.endswith(".parquet"))
    return ds.dataset(paths, filesystem=filesystem, format="parquet").to_table() if paths else None


def _records(folder: str, signal: str, request: SampleRequest, s3: S3Config) -> list[pa.Table]:
    """Return every record with its key, its adjusted count and the requested columns."""
    filesystem, base = resolve_filesystem(folder, s3)
    listing, scheme = list_folder(base, filesystem), scheme_of(folder)
    found = []
    for part in sorted({file.part for file in listing[signal]}):
        files = {
            table: tuple(scheme + file.path for file in of_table if file.part == part)
            for table, of_table in listing.items()
        }
        reader = PartReader(PartFiles(files, infer_part_offsets(s3, files)), s3)
        for path in files[signal]:
            found += [_describe_records(star, part, request) for star in _stars(reader, signal, path)]
    return found


def _stars(reader: PartReader, signal: str, path: str) -> Iterator[StarRows]:
    for star, _places in reader.select(signal, path, lambda rows, _start: np.ones(rows.num_rows, np.bool_), ROWS):
        yield star


def _describe_records(star: StarRows, part: str, request: SampleRequest) -> pa.Table:
    ids = ids_of(star.rows.column("id"))
    attributes = star.child(attributes_of(star.root))
    counts = attributes.filter(pc.equal(attributes.column("key"), ATTRIBUTE))
    adjusted = _place_values(ids, ids_of(counts.column("parent_id")), parse_numbers(counts), 1.0)
    columns = {
        "part": pa.array([part] * len(ids)),
        "id": pa.array(ids),
        "time": pa.array(times_of(star.rows, star.root)),
        "adjusted": pa.array(adjusted),
    }
    if request.by is not None:
        columns["by"] = _names(star, request.by)
    if request.of is not None:
        columns["value"] = pa.array(_values(star, ids, attributes, request.of), from_pandas=True)
    return pa.table(columns)


def _names(star: StarRows, name: str) -> pa.Array:
    """Return an attribute of the records' resources, or a column of the records, as text."""
    if name in schema(star.root).names:
        return pc.cast(star.column(name), pa.string())
    resources = star.child(RESOURCE_ATTRS)
    matches = resources.filter(pc.equal(resources.column("key"), name))
    texts = pc.coalesce(*(pc.cast(matches.column(kind), pa.string()) for kind in ("str", "int", "double", "bool")))
    known = dict(zip(ids_of(matches.column("parent_id")).tolist(), texts.to_pylist(), strict=True))
    return pa.array([known.get(resource) for resource in star.resources.tolist()], pa.string())


def _values(star: StarRows, ids: Ids, attributes: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """Return a numeric column or attribute of records, with NaN for records without one."""
    column = ALIASES.get(name, name)
    if column in schema(star.root).names:
        kind = schema(star.root).field(column).type
        if pa.types.is_struct(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_string(kind):
            raise InputError(f"{name} is {kind}", hint="name a column or an attribute that holds numbers")
        whole = star.column(column)
        plain = whole.cast(pa.int64()) if pa.types.is_temporal(kind) else whole
        return np.asarray(plain.cast(pa.float64(), safe=False).fill_null(np.nan))
    matches = attributes.filter(pc.equal(attributes.column("key"), name))
    return _place_values(ids, ids_of(matches.column("parent_id")), parse_numbers(matches), np.nan)


def _place_values(ids: Ids, parents: Ids, values: npt.NDArray[np.float64], otherwise: float) -> npt.NDArray[np.float64]:
    """Return the values of parents at the positions of their records."""
    found = np.full(len(ids), otherwise)
    order = np.argsort(ids, kind="stable")
    found[order[np.searchsorted(ids[order], parents)]] = values
    return found


def _with_threshold(rows: pa.Table) -> pa.Table:
    """Add the threshold to rows: the adjusted count if it exceeds the weight, else 0."""
    adjusted, weight = rows.column("adjusted"), rows.column("weight")
    return rows.append_column("tau", pc.if_else(pc.greater(adjusted, weight), adjusted, 0.0))


def _windows_within(rows: pa.Table, request: SampleRequest) -> pa.Table:
    """Return the rows of windows that end after `since` and begin before `until`, as a run selects them."""
    mask = np.ones(rows.num_rows, np.bool_)
    if request.since is not None:
        mask &= np.asarray(pc.greater(rows.column("window_end"), pa.scalar(request.since)))
    if request.until is not None:
        mask &= np.asarray(pc.less(rows.column("window_start"), pa.scalar(request.until)))
    return rows.filter(pa.array(mask))


def _times_within(rows: pa.Table, request: SampleRequest) -> pa.Table:
    """Return the rows of records between two times, for samples without windows."""
    times = np.asarray(rows.column("time"))
    mask = np.ones(rows.num_rows, np.bool_)
    if request.since is not None:
        mask &= times >= nanos_of(request.since)
    if request.until is not None:
        mask &= times < nanos_of(request.until)
    return rows.filter(pa.array(mask))
