"""Import a folder of OTAP Parquet: each root file once, with the rows of the other tables of its part.

The import is a file job: root files are its files, and each brings the files of its part along.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from neve.errors import InputError
from neve.ingest.batch_writer import Publisher, gather, sum_written
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.files.job import OTAP, FileJob, FileRequest, ProgressCallback, RunState
from neve.ingest.files.ledger import Skipped, split_by_weight
from neve.ingest.files.reader import FileOutcome
from neve.ingest.files.source_files import FoundFiles, HashedFile, SourceFile, hash_files
from neve.ingest.results import OtapResult
from neve.lake.spark.tasks import count_slices, find_parallelism, run_tasks
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.folder import list_folder
from neve.otap.part_reader import PartFiles, PartReader, infer_part_offsets
from neve.otap.star_rows import SIGNALS
from neve.otap.tables import STARS
from neve.otap.to_lake import to_messages
from neve.otlp import Decoded, Rejected
from neve.otlp.digest import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from neve.ingest.assignment import Assignment
    from neve.ingest.batch_writer import Written
    from neve.ingest.config import IngestConfig
    from neve.ingest.decoder import Chunk
    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.lake.spark.exchange import ExchangeBlock
    from neve.model.signals import Signal
    from neve.otap.folder import OtapFile


S3 = "s3://"

Parts = dict[str, dict[str, list[str]]]


@dataclass(frozen=True)
class OtapFolder:
    """The content of a folder: root files with their parts, the files of each part by table, and ignored files."""

    roots: tuple[SourceFile, ...]
    part_of: dict[str, str]
    parts: Parts
    ignored: tuple[str, ...]
    other_tables: dict[str, int]  # files by table that belong to neither logs nor spans

    @property
    def root_files(self) -> FoundFiles:
        """Return the root files in the form that the file job expects."""
        return FoundFiles(self.roots, self.ignored)


def list_otap_files(base: str, s3: S3Config) -> OtapFolder:
    """List the files of an OTAP folder. The part id distinguishes the parts of tables."""
    filesystem, inner = resolve_filesystem(base, s3)
    prefix = S3 if base.startswith(S3) else ""
    listing = list_folder(inner, filesystem)
    known = {table for star in STARS.values() for table in star.tables}
    files = [file for table in known for file in listing.get(table, ())]
    roots = sorted((file for file in files if file.table in STARS), key=lambda file: file.path)
    parts: Parts = {}
    for file in sorted(files, key=lambda file: file.path):
        parts.setdefault(file.part, {}).setdefault(file.table, []).append(prefix + file.path)
    return OtapFolder(
        tuple(_source_file(prefix, file) for file in roots),
        {prefix + file.path: file.part for file in roots},
        parts,
        tuple(prefix + path for path in listing.ignored),
        {table: len(found) for table, found in listing.items() if table not in known},
    )


def resolve_folder(folder: str) -> str:
    """Return the absolute path of a folder that the user named."""
    if folder.startswith(S3):
        return folder.rstrip("/")
    if "://" in folder:
        raise InputError(f"{folder} is neither a local path nor an s3:// address")
    return str(Path(folder).expanduser().resolve())


def split_root_path(path: str) -> tuple[str, str]:
    """Return the folder that a root file belongs to, and its table.

    >>> split_root_path("/in/logs/_part_id=6f/part-1.parquet")
    ('/in', 'logs')
    """
    names = path.split("/")
    for place in range(len(names) - 2, 0, -1):
        if names[place] in STARS:
            return "/".join(names[:place]), names[place]
    raise InputError(f"{path} is not in the folder of a root table: expected {' or '.join(STARS)}")


def signal_of(path: str) -> str:
    """Return the signal of a root file."""
    return SIGNALS[split_root_path(path)[1]].value


def _source_file(prefix: str, file: OtapFile) -> SourceFile:
    return SourceFile(prefix + file.path, file.size, file.modified_ms * 1000)


GUESSED_RESOURCE = "records without an id: their batch of the exporter, and so their resource, is a guess"


@dataclass(frozen=True)
class OtapOutcome(FileOutcome):
    """Outcome of one root file, with the OTAP content that the lake can't represent."""

    losses: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {**FileOutcome.to_json(replace(self, losses=Counter())), "losses": dict(self.losses)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the outcome of the values that `to_json` returned."""
        outcome = super().from_json(values)
        return replace(outcome, losses=Counter(outcome.losses))


@dataclass(frozen=True)
class OtapTask:
    """Groups of root files to ingest for an organization. Each row of the Spark frame names a group."""

    assignment: Assignment
    organization_id: str
    groups: Sequence[tuple[HashedFile, ...]]
    parts: Mapping[str, PartFiles]  # by the path of the root file

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield the rows of the task's groups. The report of the task has the outcome of each file."""
        reader = _RootFileReader(self)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for file in self.groups[group]:
                    yield from reader.ingest(file)
        yield from reader.decoder.finish([outcome.to_json() for outcome in reader.outcomes])


class RecordIdDecoder(Decoder):
    """A decoder that keeps the ids that records had in their source lake, if all of them are known.

    If some records of a chunk were rejected, the ids can't be matched to records. Ids are then computed from the
    current bytes.
    """

    record_ids: pa.Array | None = None

    def _accept(self, batch: Batch, chunk: Chunk, decoded: Decoded) -> None:
        rows = decoded.batch
        if self.record_ids is not None and len(self.record_ids) == rows.num_rows:
            ids = pc.if_else(
                pc.equal(pc.binary_length(self.record_ids), WIDTH), self.record_ids, rows.column("record_id")
            )
            place = rows.schema.get_field_index("record_id")
            rows = rows.set_column(place, rows.schema.field(place), pc.coalesce(ids, rows.column("record_id")))
        super()._accept(batch, chunk, replace(decoded, batch=rows))


class _RootFileReader:
    def __init__(self, task: OtapTask) -> None:
        self.task = task
        self.decoder = RecordIdDecoder(task.assignment)
        self.outcomes: list[OtapOutcome] = []

    def ingest(self, file: HashedFile) -> Iterator[ExchangeBlock]:
        """Ingest one root file. If it becomes unreadable at some place, the rows before that place are ingested."""
        path, assignment = file.source.path, self.task.assignment
        lost = self._find_change(file)
        if lost:
            self.outcomes.append(OtapOutcome(file, lost=lost))
            return
        root = split_root_path(path)[1]
        reader = PartReader(self.task.parts[path], assignment.s3)
        losses: Counter[str] = Counter()
        try:
            yield from self._messages(reader, root, path, losses)
        except InputError as error:
            self._refuse(path, SIGNALS[root], str(error))
        losses[GUESSED_RESOURCE] += reader.guessed
        self.decoder.tally.unpacked_bytes += file.source.size
        self.outcomes.append(OtapOutcome(file, file.signal, file.format, losses=+losses))

    def _messages(self, reader: PartReader, root: str, path: str, losses: Counter[str]) -> Iterator[ExchangeBlock]:
        intake = self.task.assignment.intake(self.task.organization_id)
        start = 0
        for star in reader.chunks(root, path):
            messages = to_messages(star, losses)
            self.decoder.record_ids = star.record_ids
            places = [start] * len(messages)
            yield from self.decoder.add(Batch(path, SIGNALS[root], intake, messages, places, is_ordered=False))
            start += star.rows.num_rows

    def _find_change(self, file: HashedFile) -> str | None:
        [again] = hash_files(self.task.assignment.s3, (file.source,))
        if isinstance(again, str):
            return f"it is missing: {again}"
        return None if again.content_hash == file.content_hash else "it changed while it was being read"

    def _refuse(self, path: str, signal: Signal, why: str) -> None:
        """Quarantine a file that can't be read, or not to its end."""
        filesystem, inner = resolve_filesystem(path, self.task.assignment.s3)
        with filesystem.open_input_stream(inner, compression=None) as stream:
            raw = stream.read(self.task.assignment.config.quarantine_bytes + 1)  # quarantine stores no more than that
        bad = Rejected("unreadable_file", why, 0, raw, "file")
        self.decoder.refuse(path, self.task.organization_id, bad, signal.value)


def ingest_otap(
    lake: Lake, config: IngestConfig, folder: str, organization_id: str, progress: ProgressCallback = lambda *_: None
) -> OtapResult:
    """Ingest the root files of a folder that the lake does not have yet. `progress` receives the step and its state."""
    base = resolve_folder(folder)
    folder_files = list_otap_files(base, lake.s3)
    job = OtapJob(
        lake,
        config,
        FileRequest((base,), organization_id),
        progress,
        folder_files.root_files,
        folders={base: folder_files},
    )
    result = job.run()
    return OtapResult(result, dict(job.conventions), dict(+job.losses), folder_files.other_tables)


@dataclass(frozen=True)
class OtapJob(FileJob):
    """One run of `neve otap import`."""

    folders: dict[str, OtapFolder] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)
    conventions: Counter[str] = field(default_factory=Counter)

    @cached_property
    def publisher(self) -> Publisher:
        """The publisher that commits the batches of the run."""
        return Publisher(self.lake, self.config, "ingest-otap")

    def _can_read(self, files: Sequence[HashedFile]) -> bool:
        return files[0].format == OTAP

    def _reject_large(self, files: list[SourceFile], _state: RunState) -> list[SourceFile]:
        """Reject no file: these files are read chunk by chunk, whatever their size."""
        return files

    def _hash(self, files: list[SourceFile]) -> tuple[list[HashedFile], list[Skipped]]:
        hashed, unreadable = super()._hash(files)
        return [replace(file, signal=signal_of(file.source.path), format=OTAP) for file in hashed], unreadable

    def _outcome(self, values: dict[str, Any]) -> OtapOutcome:
        return OtapOutcome.from_json(values)

    def _ingest_batch(self, batch_id: str, files: Sequence[HashedFile], state: RunState) -> None:
        before = len(state.outcomes)
        super()._ingest_batch(batch_id, files, state)
        for outcome in state.outcomes[before:]:
            if isinstance(outcome, OtapOutcome):
                self.losses.update(outcome.losses)

    def _decode(self, batch_id: str, files: Sequence[HashedFile]) -> Written:
        """Write data files for every table that does not have the batch yet."""
        spark = self.lake.spark
        parts = self._parts([file.source.path for file in files])
        groups = split_by_weight(files, self.config.task_bytes, at_least=find_parallelism(spark))
        assignment = self.publisher.assign(batch_id, self.publisher.tables(), writers=len(groups))
        task = OtapTask(assignment, self.request.organization_id, groups, parts)
        frame = spark.range(0, len(groups), 1, len(groups))
        report = partial(self.progress, "decoding")
        return sum_written(
            self.lake.exchange.run(frame, task.scatter, partial(gather, assignment), len(groups), report)
        )

    def _parts(self, paths: Sequence[str]) -> dict[str, PartFiles]:
        """Return the part of each root file. The id convention is checked once for each part."""
        named: dict[tuple[str, str], dict[str, list[str]]] = {}
        part_of: dict[str, tuple[str, str]] = {}
        for path in paths:
            base = split_root_path(path)[0]
            folder = self._folder(base)
            part_of[path] = base, folder.part_of.get(path, "")
            named[part_of[path]] = folder.parts.get(part_of[path][1], {})
        find = partial(infer_part_offsets, self.lake.s3)
        spark = self.lake.spark
        report, slices = partial(self.progress, "ids"), count_slices(spark)
        offsets = run_tasks(spark, find, list(named.values()), report, slices)
        self.conventions.update("specification" if one is None else "exporter" for one in offsets)
        parts = {key: PartFiles(named[key], one) for key, one in zip(named, offsets, strict=True)}
        return {path: parts[key] for path, key in part_of.items()}

    def _folder(self, base: str) -> OtapFolder:
        if base not in self.folders:
            self.folders[base] = list_otap_files(base, self.lake.s3)
        return self.folders[base]
