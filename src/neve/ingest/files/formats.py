"""What a file is, told by its name: format, compression, and a hint of its signal."""

import re
from dataclasses import dataclass
from enum import StrEnum

from neve.model.signals import Signal


class Format(StrEnum):
    """How the records of a file are written."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    JSON_LINES = "json_lines"
    CSV = "csv"
    PARQUET = "parquet"


class Compression(StrEnum):
    """How a file is packed."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


EXTENSIONS = {
    ".binpb": Format.OTLP_PROTO,
    ".pb": Format.OTLP_PROTO,
    ".json": Format.OTLP_JSON,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}
COMPRESSIONS = {".gz": Compression.GZIP, ".zst": Compression.ZSTD}
HINTS = (
    (Signal.TRACES, re.compile(r"(?<![a-z])(traces?|spans?)(?![a-z])")),
    (Signal.METRICS, re.compile(r"(?<![a-z])metrics?(?![a-z])")),
    (Signal.LOGS, re.compile(r"(?<![a-z])(logs?|events?)(?![a-z])")),
)


@dataclass(frozen=True)
class Named:
    """What a file's name says; JSON of either kind is told apart by its content."""

    format: Format | None
    compression: Compression


def read_name(path: str) -> Named:
    """Format and compression by the endings of a name.

    >>> read_name("a/spans.otlp.jsonl.gz")
    Named(format=<Format.JSON_LINES: 'json_lines'>, compression=<Compression.GZIP: 'gzip'>)
    """
    name = path.rsplit("/", 1)[-1].lower()
    compression = Compression.NONE
    for ending, packed in COMPRESSIONS.items():
        if name.endswith(ending):
            name, compression = name.removesuffix(ending), packed
    form = next((form for ending, form in EXTENSIONS.items() if name.endswith(ending)), None)
    return Named(form, compression)


def signal_hint(path: str) -> Signal | None:
    """The signal that a file's own name or else its folder's speaks of.

    Folders further up do not count: a project that is called logs may hold traces.

    >>> signal_hint("logs/traces-01.binpb"), signal_hint("logs/01.pb"), signal_hint("logs/2026/01.pb")
    (<Signal.TRACES: 'traces'>, <Signal.LOGS: 'logs'>, None)
    """
    for part in reversed(path.lower().split("/")[-2:]):
        for signal, words in HINTS:
            if words.search(part):
                return signal
    return None
