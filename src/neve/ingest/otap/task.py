"""What a Spark task does with root files: read them chunk by chunk, make messages of them, decode those."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from neve.errors import InputError
from neve.ingest.decoder import Batch, Decoder
from neve.ingest.files.hashing import HashedFile, hash_files
from neve.ingest.files.task import FileOutcome
from neve.ingest.otap.find import root_of
from neve.lake.filesystem import filesystem_of
from neve.otap.read import PartReader
from neve.otap.star_rows import SIGNALS
from neve.otap.to_lake import to_messages
from neve.otlp import Decoded, Rejected
from neve.otlp.digest import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from neve.ingest.assignment import Assignment
    from neve.lake.exchange import Parcel
    from neve.model.signals import Signal
    from neve.otap.read import PartFiles

GUESSED = "records without an id: which batch of the exporter they are of, and so their resource, is a guess"


@dataclass(frozen=True)
class OtapOutcome(FileOutcome):
    """How one root file ended, and what of it OTAP said and the lake can't."""

    losses: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain values."""
        return {**FileOutcome.to_json(replace(self, losses=Counter())), "losses": dict(self.losses)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        """The outcome that `to_json` told of."""
        outcome = super().from_json(told)
        return replace(outcome, losses=Counter(outcome.losses))


@dataclass(frozen=True)
class OtapTask:
    """Groups of root files to take in for an organization; a row of the frame that Spark runs it over names a group."""

    assignment: Assignment
    organization_id: str
    groups: Sequence[tuple[HashedFile, ...]]
    parts: Mapping[str, PartFiles]  # by the path of the root file

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """The rows of the groups that a task was given; its report says how each file ended."""
        taker = _Taker(self)
        for batch in batches:
            for group in batch.column(0).to_pylist():
                for file in self.groups[group]:
                    yield from taker.take(file)
        yield from taker.decoder.finish([outcome.to_json() for outcome in taker.outcomes])


class KeepingDecoder(Decoder):
    """A decoder that leaves records the ids that they had in the lake that they come from, where all are told.

    Where some of a chunk's records were refused nothing tells which, and ids are those of the bytes as they are now.
    """

    told: pa.Array | None = None

    def _accept(self, batch: Batch, decoded: Decoded) -> None:
        rows = decoded.batch
        if self.told is not None and len(self.told) == rows.num_rows:
            ids = pc.if_else(pc.equal(pc.binary_length(self.told), WIDTH), self.told, rows.column("record_id"))
            place = rows.schema.get_field_index("record_id")
            rows = rows.set_column(place, rows.schema.field(place), pc.coalesce(ids, rows.column("record_id")))
        super()._accept(batch, replace(decoded, batch=rows))


class _Taker:
    def __init__(self, task: OtapTask) -> None:
        self.task = task
        self.decoder = KeepingDecoder(task.assignment)
        self.outcomes: list[OtapOutcome] = []

    def take(self, file: HashedFile) -> Iterator[Parcel]:
        """Take in one root file; where it can't be read, what comes before that place is in the lake all the same."""
        path, assignment = file.source.path, self.task.assignment
        lost = self._lost(file)
        if lost:
            self.outcomes.append(OtapOutcome(file, lost=lost))
            return
        root = root_of(path)[1]
        reader = PartReader(self.task.parts[path], assignment.s3)
        losses: Counter[str] = Counter()
        try:
            yield from self._messages(reader, root, path, losses)
        except InputError as error:
            self._refuse(path, SIGNALS[root], str(error))
        losses[GUESSED] += reader.guessed
        self.decoder.tally.unpacked_bytes += file.source.size
        self.outcomes.append(OtapOutcome(file, file.signal, file.format, losses=+losses))

    def _messages(self, reader: PartReader, root: str, path: str, losses: Counter[str]) -> Iterator[Parcel]:
        intake = self.task.assignment.intake(self.task.organization_id)
        start = 0
        for star in reader.chunks(root, path):
            messages = to_messages(star, losses)
            self.decoder.told = star.record_ids
            yield from self.decoder.take(Batch(path, SIGNALS[root], intake, messages, [start] * len(messages)))
            start += star.rows.num_rows

    def _lost(self, file: HashedFile) -> str | None:
        [again] = hash_files(self.task.assignment.s3, (file.source,))
        if isinstance(again, str):
            return f"it is gone: {again}"
        return None if again.content_hash == file.content_hash else "it changed while it was being read"

    def _refuse(self, path: str, signal: Signal, why: str) -> None:
        """Put a file that can't be read, or not to its end, into quarantine."""
        filesystem, inner = filesystem_of(path, self.task.assignment.s3)
        with filesystem.open_input_stream(inner, compression=None) as stream:
            raw = stream.read(self.task.assignment.config.quarantine_bytes + 1)  # more than that is not kept anyway
        bad = Rejected("unreadable_file", why, 0, raw, "file")
        self.decoder.refuse(path, self.task.organization_id, bad, signal.value)
