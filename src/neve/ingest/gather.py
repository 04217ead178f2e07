"""What a writer does: gather the parcels of a batch, leave out what is there already, write data files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.ingest.decoder import REPORT, TALLY
from neve.ingest.duplicates import DuplicateSieve
from neve.ingest.tally import Tally
from neve.lake.writer import write_files
from neve.model.tables import BY_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile

    from neve.ingest.assignment import Assignment
    from neve.lake.exchange import Parcel

SIGNAL_OF = {table.name: signal.value for signal, table in BY_SIGNAL.items()}


@dataclass
class Written:
    """The data files of a batch by table, what was counted, and the reports of the decoding tasks as values of JSON."""

    files: dict[str, list[DataFile]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    reports: list[Any] = field(default_factory=list)

    def add(self, other: Written) -> None:
        """Take in what another writer wrote."""
        for table, files in other.files.items():
            self.files.setdefault(table, []).extend(files)
        self.tally.add(other.tally)
        self.reports += other.reports


def gather(assignment: Assignment, parcels: Iterable[Parcel]) -> Written:
    """Write the rows of all parcels; each table's rows are held until there is enough for files of a good size."""
    writer = _Writer(assignment)
    for parcel in parcels:
        writer.take(parcel)
    writer.flush()
    return writer.written


class _Writer:
    def __init__(self, assignment: Assignment) -> None:
        self.written = Written()
        self._assignment = assignment
        self._sieves: dict[str, DuplicateSieve] = {}
        self._held: dict[str, list[pa.Table]] = {}
        self._held_bytes = 0

    def take(self, parcel: Parcel) -> None:
        if parcel.label == REPORT:
            told = json.loads(parcel.rows.column(0)[0].as_py())
            self.written.tally.add(Tally.from_json(told[TALLY]))
            self.written.reports.append(told[REPORT])
            return
        self._held.setdefault(parcel.label, []).append(parcel.rows)
        self._held_bytes += parcel.rows.nbytes
        if self._held_bytes >= self._assignment.config.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        for name, tables in self._held.items():
            target = self._assignment.targets[name]
            sieve = self._sieve(name)
            before = sieve.dropped if sieve else 0
            files = write_files(target, pa.concat_tables(tables), sieve)
            self.written.files.setdefault(name, []).extend(files)
            if sieve and sieve.dropped > before:
                self.written.tally.duplicates[SIGNAL_OF[name]] += sieve.dropped - before
        self._held, self._held_bytes = {}, 0

    def _sieve(self, name: str) -> DuplicateSieve | None:
        """The sieve of a table of records, the same for all that is written in this task."""
        if name not in SIGNAL_OF or not self._assignment.config.deduplicate_seconds:
            return None
        if name not in self._sieves:
            io = self._assignment.targets[name].io
            self._sieves[name] = DuplicateSieve(io, self._assignment.recent.get(name, {}))
        return self._sieves[name]
