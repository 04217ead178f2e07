"""Full-text search: what the index costs to make and to keep, and what it saves a search for a word.

The baseline reads the messages of every file with the same DuckDB. Half of a message's words come again and again, the
others are ids, as in real logs: they make the filters large, and are what people look for.
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.report import Report
from bench.sizes import choose
from bench.usage import Meter
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.duckdb import connect, quote_literal
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS, SEARCH_INDEX
from neve.search.config import SearchConfig
from neve.search.job import SearchIndexer
from neve.search.lookup import SearchIndex
from neve.search.plan import live_files
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES = choose(50, 10)
ROWS = 10_000  # of a file
OWNER = "acme"
START = datetime(2026, 2, 2, 9, tzinfo=UTC)
PARTS = (
    ("connection pool exhausted after ", " ms, request ", " gave up"),
    ("GET /api/v1/carts/", " HTTP/1.1 200, trace ", " in 12 ms"),
    ("could not send order ", " to broker: timeout, message ", " is kept"),
    ("user ", " signed in, session ", " from 10.1.2.3"),
    ("payment of ", " EUR accepted, transaction ", " by visa"),
    ("cache miss for product ", ", key ", ", loading it"),
)
NEEDLES = choose(200, 40)
ROUNDS = choose(9, 3)
ABSENT = choose(2_000, 200)


def main() -> None:
    """Warm up, then measure one after the other."""
    report = Report("search")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        build(lake_of(Path(folder), "warm", files=2), Path(folder), Report("warm"))
        lake = lake_of(Path(folder), "whole", files=FILES)
        build(lake, Path(folder), report)
        look_up(lake, report)
    report.show()


def lake_of(folder: Path, name: str, files: int) -> Lake:
    """A lake of logs, with a commit for each file."""
    lake = Lake(
        LakeConfig(warehouse=str(folder / name)),
        CatalogConfig(name=name, path=str(folder / f"{name}.db")),
        spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
    )
    init_tables(lake)
    init_tables(lake, (SEARCH_INDEX,))
    table = lake.table(LOGS.name)
    for number in range(files):
        written = write_files(Target.of(table), logs(number))
        append_once(table, written, batch_id=f"{name} {number}", operation="bench")
    return lake


def logs(number: int) -> pa.Table:
    """The logs of one file."""
    chance = np.random.default_rng(number)
    kind = chance.integers(len(PARTS), size=ROWS)
    begin, middle, end = (pa.array(words).take(pa.array(kind)) for words in zip(*PARTS, strict=True))
    small, ids = chance.integers(100_000, size=ROWS), hexes(chance, 16)
    micros = int(START.timestamp() * 1e6) + (number * ROWS + np.arange(ROWS)) * 1_000
    moments = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
    services = pa.array(["cart", "checkout", "payment", "search"]).take(pa.array(chance.integers(4, size=ROWS)))
    columns = {
        "organization_id": pa.array([OWNER] * ROWS),
        "timestamp": moments,
        "service_name": services,
        "severity_number": pa.array(chance.choice([9, 13, 17], size=ROWS), pa.int32()),
        "message": pc.binary_join_element_wise(begin, pa.array(small).cast(pa.string()), middle, ids, end, ""),
        "trace_id": pa.array([bytes(one) for one in chance.integers(256, size=(ROWS, 16), dtype=np.uint8)]),
        "record_id": pa.array([bytes(one) for one in chance.integers(256, size=(ROWS, 16), dtype=np.uint8)]),
        "ingested_at": moments,
    }
    return pa.table(columns)


def hexes(chance: np.random.Generator, size: int) -> pa.Array:
    """Ids as logs print them."""
    return pa.array([bytes(one).hex() for one in chance.integers(256, size=(ROWS, size), dtype=np.uint8)])


def build(lake: Lake, folder: Path, report: Report) -> None:
    """Index everything."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    with Meter(with_children=True) as usage:
        result = SearchIndexer(lake, SearchConfig(), documents).build()
    assert result.committed
    column = sum(message_bytes(lake, file.path) for file in live_files(lake.table(LOGS.name)))
    report.ours |= {
        "build_cpu_s_per_million": usage.cpu_s / result.rows * 1e6,
        "build_wall_s": usage.wall_s,
        "words": result.words,
        "index_mb": result.index_bytes / 1e6,
        "data_mb": result.data_bytes / 1e6,
    }
    report.ratios |= {
        "index_of_data": result.index_bytes / result.data_bytes,
        "index_of_messages": result.index_bytes / column,
    }


def message_bytes(lake: Lake, path: str) -> int:
    """What the messages take in a file."""
    with lake.table(LOGS.name).io.new_input(path).open() as source:
        footer = pq.ParquetFile(source).metadata
    place = footer.schema.names.index("message")
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    return int(sum(group.column(place).total_compressed_size for group in groups))


def look_up(lake: Lake, report: Report) -> None:
    """Search for ids that one file holds each, and for words that none does."""
    paths = [file.path for file in live_files(lake.table(LOGS.name))]
    needles = [hexes_of(number % FILES, number) for number in range(NEEDLES)]
    cold = float(np.median([timed(SearchIndex(lake), paths, word) for word in needles[:ROUNDS]]))
    index = SearchIndex(lake)
    opened = [may_match(index, paths, word) for word in needles]
    began = time.perf_counter()
    claimed = sum(len(may_match(index, paths, f"absent{number}")) for number in range(ABSENT))
    warm = (time.perf_counter() - began) / ABSENT
    few = float(np.median([scanned(lake, opened[number], needles[number]) for number in range(ROUNDS)]))
    every = float(np.median([scanned(lake, paths, needles[number]) for number in range(ROUNDS)]))
    report.ours |= {
        "lookup_cold_ms": cold * 1e3,
        "lookup_warm_ms": warm * 1e3,
        "files_opened": float(np.mean([len(found) for found in opened])),
        "false_positive_rate": claimed / (ABSENT * len(paths)),
        "scan_ms": few * 1e3,
    }
    report.baselines["every file"] = {"files_opened": len(paths), "scan_ms": every * 1e3}
    report.ratios |= {"search_cold": every / (cold + few), "search_warm": every / (warm + few)}


def hexes_of(file: int, number: int) -> str:
    """An id that is in the messages of a file."""
    message: str = logs(file).column("message")[number].as_py()
    return max(message.replace(",", "").split(), key=len)


def may_match(index: SearchIndex, paths: Sequence[str], word: str) -> list[str]:
    """The files that must be opened for a word."""
    found = index.find_rows(LOGS.name, OWNER, paths, (("message", frozenset({word})),))
    return [path for path, spans in found.items() if spans != ()]


def timed(index: SearchIndex, paths: Sequence[str], word: str) -> float:
    """How long one look-up takes."""
    began = time.perf_counter()
    may_match(index, paths, word)
    return time.perf_counter() - began


def scanned(lake: Lake, paths: Sequence[str], word: str) -> float:
    """How long DuckDB takes to find a word in some files."""
    connection = connect(lake.s3, on_s3=False)
    files = ", ".join(quote_literal(path.removeprefix("file://")) for path in paths)
    sql = f"SELECT count(*) FROM read_parquet([{files}]) WHERE contains(message, {quote_literal(word)})"
    connection.execute(sql)
    began = time.perf_counter()
    assert connection.execute(sql).fetchone() == (1,)
    return time.perf_counter() - began
