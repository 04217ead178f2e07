"""Killed at any moment and run again: one decision for each trace, and every kept trace exported, each span of it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.query.lakes import settings_of
from tests.tail.export.test_otlp_files import read_folder
from tests.tail.lakes import Desk, Span, put, tail_lake

pytestmark = pytest.mark.kills
NEVE = str(Path(sys.executable).with_name("neve"))
ROUNDS, TRACES = 12, 4000


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """The command is killed again and again while spans come in; at the end everything is as if nobody had."""
    desk = Desk(tail_lake(tmp_path), tmp_path)
    out = tmp_path / "kept"
    config = tmp_path / "neve.yaml"
    destinations = [{"name": "files", "kind": "otlp_files", "folder": str(out)}, {"name": "table", "kind": "iceberg"}]
    tail = {"clock": "event", "percentage": 20, "export": {"destinations": destinations}}
    state = {"path": str(tmp_path / "state.db")}
    config.write_text(json.dumps(settings_of(tmp_path) | {"state": state, "tail": tail}))
    chance, killed, expected = random.Random(5), 0, set()
    for number in range(ROUNDS):
        spans = [
            Span(trace, 10 * number + part, error=trace % 50 == 0 and part == 1)
            for trace in range(number * TRACES // ROUNDS + 1, (number + 1) * TRACES // ROUNDS + 1)
            for part in (1, 2, 3)
        ]
        put(desk.lake, spans)
        expected |= {(span.trace_id, span.number) for span in spans}
        killed += _killed(config, after=chance.uniform(0.5, 4))
    _run(config)

    rows = desk.decisions()
    assert killed > ROUNDS // 2
    assert sorted(row["trace_id"] for row in rows) == sorted({trace for trace, _number in expected})
    assert {row["span_count"] for row in rows} == {3}
    kept = {row["trace_id"] for row in rows if row["decision"] == "sampled"}
    assert len(kept) > TRACES // 10
    wanted = sorted((trace, number) for trace, number in expected if trace in kept)
    table = desk.lake.table("sampled_spans").scan().to_arrow()
    assert sorted(_spans(table.to_pylist())) == wanted
    files = [row for batch in read_folder(out) for row in batch.to_pylist()]
    assert set(_spans(files)) == set(wanted)


def _killed(config: Path, *, after: float) -> int:
    process = subprocess.Popen(
        [NEVE, "-c", str(config), "tail", "run", "--once", "--steal"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after)
    if process.poll() is not None:
        return 0
    os.killpg(process.pid, signal.SIGKILL)
    return int(process.wait() == -signal.SIGKILL)


def _run(config: Path) -> None:
    done = subprocess.run(
        [NEVE, "-c", str(config), "tail", "run", "--once", "--steal"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _spans(rows: list[dict[str, object]]) -> list[tuple[object, int]]:
    return [(row["trace_id"], int.from_bytes(bytes(row["span_id"]), "big")) for row in rows]  # type: ignore[call-overload]
