"""Reports of tasks: values of JSON in parcels, which lie in files, and never code."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from neve.ingest.assignment import Assignment
from neve.ingest.batch_writer import gather
from neve.ingest.config import IngestConfig
from neve.ingest.decoder import REPORT, Decoder
from neve.ingest.files.reader import FileOutcome
from neve.ingest.files.source_files import HashedFile, SourceFile
from neve.ingest.otap_import import OtapOutcome
from neve.lake.config import S3Config
from neve.lake.spark.exchange import ExchangeBlock

ASSIGNMENT = Assignment("batch", 0, IngestConfig(), S3Config(), {})
FILE = HashedFile(SourceFile("/logs/caf\udce9 \n.json", 10, 1_700_000_000_000_001), "ab12", "logs", None)


class Attack:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_a_report_is_data_and_never_code(tmp_path: Path) -> None:
    """A parcel that somebody swapped for a pickle is not run."""
    words = pickle.dumps(Attack(tmp_path / "taken"))
    swapped = ExchangeBlock(0, REPORT, pa.table({REPORT: pa.array([words], pa.binary())}))
    with pytest.raises(ValueError, match=r"decode|Expecting"):
        gather(ASSIGNMENT, [swapped])
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize(
    "outcome",
    [
        FileOutcome(FILE),
        FileOutcome(FILE, "logs,traces", "otlp_json"),
        FileOutcome(FILE, lost="it is missing"),
        OtapOutcome(FILE, "logs", "otap", losses=Counter({"an id": 2, "a \ud800 name": 1})),
    ],
)
def test_a_report_arrives_as_it_was_sent(outcome: FileOutcome) -> None:
    """Counts of every kind, and how files ended, whatever they are called."""
    decoder = Decoder(ASSIGNMENT)
    decoder.tally.messages = 3
    decoder.tally.records["logs"] = 7
    decoder.tally.rejected["malformed_line"] = 2
    written = gather(ASSIGNMENT, list(decoder.finish([outcome.to_json()])))
    assert written.tally == decoder.tally
    assert written.tally.written_records == Counter(logs=7)
    [[told]] = written.reports
    assert type(outcome).from_json(told) == outcome
