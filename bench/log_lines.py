"""Plain log files to OTLP messages on one core: split into records, parsed by patterns, encoded; lines a CPU second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.report import Report
from bench.sizes import choose
from neve.ingest.config import FieldsConfig, LinesConfig
from neve.ingest.files.formats import Format
from neve.ingest.files.log_formats import BY_NAME
from neve.ingest.files.log_lines import split_records
from neve.ingest.files.log_times import LineRules, parse_times
from neve.ingest.files.reader import ReadOptions, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = choose(200_000, 20_000)
ROUNDS = choose(3, 1)
RULES = LineRules(LinesConfig(), 1_760_000_000_000_000_000)
SAMPLES = {
    Format.SYSLOG_3164: "<34>Jun 14 15:16:{second:02} combo sshd[19939]: authentication failure; uid=0 rhost=10.2.{n}",
    Format.SYSLOG_5424: '<165>1 2025-10-11T22:14:{second:02}.003Z host app 12 ID47 [a@1 iut="3"] An event {n}',
    Format.ACCESS_COMBINED: '127.0.0.1 - ann [10/Oct/2025:13:55:{second:02} -0700] "GET /a?n={n} HTTP/1.0" 200 2326 '
    '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"',
    Format.LOGBACK: "2025-10-18 18:01:{second:02},978 INFO [main] org.example.shop.Cart: Created cart of user {n}",
    Format.CRI: "2025-10-06T00:17:{second:02}.669794202Z stdout F log content of some length, number {n}",
}


def main() -> None:
    """Measure the parsing alone, and the whole way to messages."""
    pa.set_cpu_count(1)
    report = Report("log_lines", baselines={"parse_only": {}})
    for form, sample in SAMPLES.items():
        data = "\n".join(sample.format(second=n % 60, n=n) for n in range(LINES)).encode()
        whole = _best(lambda: read_messages("x.log", data, ReadOptions(None, form), FieldsConfig(), rules=RULES))  # noqa: B023
        parsed = _best(lambda: _parse(form, data))  # noqa: B023 - run at once
        report.ours[f"{form}_lines_per_s"] = LINES / whole
        report.baselines["parse_only"][f"{form}_lines_per_s"] = LINES / parsed
        report.ratios[f"{form}_whole_vs_parse"] = parsed / whole
    report.show()


def _parse(form: Format, data: bytes) -> None:
    """Split a file into records, and extract their parts and times."""
    log = BY_NAME[form]
    parts = pa.compute.extract_regex(split_records(data, log, RULES.config).texts, log.pattern)
    parse_times(log, parts.field("time"), RULES)


def _best(run: Callable[[], object]) -> float:
    """Return the least CPU time of some rounds."""
    times = []
    for _round in range(ROUNDS):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)
