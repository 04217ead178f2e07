"""A sample folder as rows to estimate from: what each kept record stands for, its group, and a value of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from neve.errors import InputError
from neve.lake.filesystem import filesystem_of
from neve.otap.folder import list_folder
from neve.otap.joins import ids_of
from neve.otap.part_ids import offsets_of_part
from neve.otap.read import PartFiles, PartReader
from neve.otap.tables import RESOURCE_ATTRS, STARS, schema
from neve.reservoir.star.files import scheme_of, times_of
from neve.reservoir.star.ledger import Ledger
from neve.reservoir.star.weights import ATTRIBUTE, attributes_of, numbers_of
from neve.reservoir.window import nanos_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.joins import Ids
    from neve.otap.star_rows import StarRows

ROWS = 100_000
ALIASES = {"duration": "duration_time_unix_nano"}
SHARED_KEYS = ("part", "id")


@dataclass(frozen=True)
class Asked:
    """What is wanted of a folder: whether by another attribute, of which value, and of which time.

    As with a run, windows count that end after `since` and begin before `until`.
    """

    by: str | None = None
    of: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def signal_of(folder: str, s3: S3Config) -> str:
    """The signal that a sample is of: the root table that is there."""
    filesystem, base = filesystem_of(folder.rstrip("/"), s3)
    found = [signal for signal in STARS if signal in list_folder(base, filesystem)]
    if len(found) != 1:
        raise InputError(f"{folder} holds {' and '.join(found)}", hint="name a folder with the sample of one signal")
    return found[0]


def sample_rows(folder: str, asked: Asked, s3: S3Config) -> pa.Table:
    """Kept records, as `neve.reservoir.estimate.sample.Sample.of` takes them.

    Where the sampler's decisions are beside the tables they tell what records weighed; a foreign sample has none.
    """
    folder, signal = folder.rstrip("/"), signal_of(folder, s3)
    rows = pa.concat_tables(_records(folder, signal, asked, s3), promote_options="default")
    decisions = decisions_of(folder, signal, s3)
    if decisions is None:
        return _times_within(rows, asked).drop_columns([*SHARED_KEYS, "time"])
    known = decisions.join(rows.drop_columns(["adjusted", "time"]), list(SHARED_KEYS), join_type="inner")
    if known.num_rows != rows.num_rows:
        raise InputError(
            f"{rows.num_rows:,} records in {folder}, {known.num_rows:,} with a decision",
            hint="a window is being written, others added files, or some windows passed whole: `neve reservoir "
            "inspect` lists them, `neve reservoir run --again` makes them alike",
        )
    return _windows_within(_with_threshold(known), asked)


def grouped_by(folder: str, signal: str, s3: S3Config) -> tuple[str, ...]:
    """What the groups of a sample are told by; nothing where it has none, as a foreign one."""
    found = {one.by for one in Ledger.of(folder, signal, s3).sampled().values()}
    if len(found) > 1 or None in found:
        how = "by a query" if found == {None} else "by several settings"
        raise InputError(
            f"{folder} was sampled {how}, which tell no groups of the full data", hint="name an attribute with --by"
        )
    return (found.pop() or ()) if found else ()


def decisions_of(folder: str, signal: str, s3: S3Config) -> pa.Table | None:
    """What the sampler wrote down about the records that it kept."""
    filesystem, base = filesystem_of(folder, s3)
    path = f"{base}/_neve/decisions/{signal}"
    found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    paths = sorted(info.path for info in found if info.path.endswith(".parquet"))
    return ds.dataset(paths, filesystem=filesystem, format="parquet").to_table() if paths else None


def _records(folder: str, signal: str, asked: Asked, s3: S3Config) -> list[pa.Table]:
    """Every record with its key, what it stands for, and what is asked of it."""
    filesystem, base = filesystem_of(folder, s3)
    listing, scheme = list_folder(base, filesystem), scheme_of(folder)
    found = []
    for part in sorted({file.part for file in listing[signal]}):
        files = {
            table: tuple(scheme + file.path for file in of_table if file.part == part)
            for table, of_table in listing.items()
        }
        reader = PartReader(PartFiles(files, offsets_of_part(s3, files)), s3)
        for path in files[signal]:
            found += [_told(star, part, asked) for star in _stars(reader, signal, path)]
    return found


def _stars(reader: PartReader, signal: str, path: str) -> Iterator[StarRows]:
    for star, _places in reader.kept(signal, path, lambda rows, _start: np.ones(rows.num_rows, np.bool_), ROWS):
        yield star


def _told(star: StarRows, part: str, asked: Asked) -> pa.Table:
    ids = ids_of(star.rows.column("id"))
    attributes = star.child(attributes_of(star.root))
    counts = attributes.filter(pc.equal(attributes.column("key"), ATTRIBUTE))
    adjusted = _placed(ids, ids_of(counts.column("parent_id")), numbers_of(counts), 1.0)
    columns = {
        "part": pa.array([part] * len(ids)),
        "id": pa.array(ids),
        "time": pa.array(times_of(star.rows, star.root)),
        "adjusted": pa.array(adjusted),
    }
    if asked.by is not None:
        columns["by"] = _names(star, asked.by)
    if asked.of is not None:
        columns["value"] = pa.array(_values(star, ids, attributes, asked.of), from_pandas=True)
    return pa.table(columns)


def _names(star: StarRows, name: str) -> pa.Array:
    """An attribute of records' resources, or a column of theirs, as text."""
    if name in schema(star.root).names:
        return pc.cast(star.column(name), pa.string())
    resources = star.child(RESOURCE_ATTRS)
    said = resources.filter(pc.equal(resources.column("key"), name))
    texts = pc.coalesce(*(pc.cast(said.column(kind), pa.string()) for kind in ("str", "int", "double", "bool")))
    known = dict(zip(ids_of(said.column("parent_id")).tolist(), texts.to_pylist(), strict=True))
    return pa.array([known.get(resource) for resource in star.resources.tolist()], pa.string())


def _values(star: StarRows, ids: Ids, attributes: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A number that records have in a column or as an attribute; NaN where they have none."""
    column = ALIASES.get(name, name)
    if column in schema(star.root).names:
        kind = schema(star.root).field(column).type
        if pa.types.is_struct(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_string(kind):
            raise InputError(f"{name} is {kind}", hint="name a column or an attribute that holds numbers")
        whole = star.column(column)
        plain = whole.cast(pa.int64()) if pa.types.is_temporal(kind) else whole
        return np.asarray(plain.cast(pa.float64(), safe=False).fill_null(np.nan))
    said = attributes.filter(pc.equal(attributes.column("key"), name))
    return _placed(ids, ids_of(said.column("parent_id")), numbers_of(said), np.nan)


def _placed(ids: Ids, parents: Ids, values: npt.NDArray[np.float64], otherwise: float) -> npt.NDArray[np.float64]:
    """Values of parents at the places of their records."""
    found = np.full(len(ids), otherwise)
    order = np.argsort(ids, kind="stable")
    found[order[np.searchsorted(ids[order], parents)]] = values
    return found


def _with_threshold(rows: pa.Table) -> pa.Table:
    """Rows with the threshold that made them stand for more than they weigh; 0 for those that stand for themselves."""
    adjusted, weight = rows.column("adjusted"), rows.column("weight")
    return rows.append_column("tau", pc.if_else(pc.greater(adjusted, weight), adjusted, 0.0))


def _windows_within(rows: pa.Table, asked: Asked) -> pa.Table:
    """The rows of windows that end after the one moment and begin before the other, as a run takes them."""
    mask = np.ones(rows.num_rows, np.bool_)
    if asked.since is not None:
        mask &= np.asarray(pc.greater(rows.column("window_end"), pa.scalar(asked.since)))
    if asked.until is not None:
        mask &= np.asarray(pc.less(rows.column("window_start"), pa.scalar(asked.until)))
    return rows.filter(pa.array(mask))


def _times_within(rows: pa.Table, asked: Asked) -> pa.Table:
    """The rows of records between two moments, where nothing tells windows."""
    times = np.asarray(rows.column("time"))
    mask = np.ones(rows.num_rows, np.bool_)
    if asked.since is not None:
        mask &= times >= nanos_of(asked.since)
    if asked.until is not None:
        mask &= times < nanos_of(asked.until)
    return rows.filter(pa.array(mask))
