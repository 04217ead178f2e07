"""Formats of plain log files, declared as data, and the detection of one by the first lines of a file.

Patterns are RE2, whose time is linear in the length of a line. `start` matches the first line of a record, `pattern`
the whole record with its named parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import UnknownLines
from neve.ingest.files.formats import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK_AT_BYTES = 64 * 1024
MIN_SHARE = 0.5  # of the first lines that must be of a format
MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
RFC_3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRITICAL|SEVERE|FINE(?:R|ST)?|CONFIG"
STACK_TRACE = r"^(?:\s|Caused by:|Suppressed: |\.\.\. \d+ |at |[}\])])"
ANY = ""  # every line until the next record
REST = r"(?P<message>(?s:.*))$"


@dataclass(frozen=True)
class LogFormat:
    """The lines of a kind of log file.

    `times` are formats of the time for DuckDB's `strptime`, none for calendar times as in RFC 3339. `attributes` and
    `resource` map parts of the pattern to names. A format without `continuation` has one line for each record.
    """

    name: Format
    start: str
    rest: str = REST
    continuation: str | None = None
    times: tuple[str, ...] = ()
    has_year: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    integers: frozenset[str] = frozenset()  # attributes that are numbers
    resource: Mapping[str, str] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """The pattern of a whole record."""
        return self.start + self.rest


_SYSLOG_NAMES = {"process": "syslog.procid", "facility": "syslog.facility.code"}
_SYSLOG_RESOURCE = {"service": "service.name", "host": "host.name"}
_PROCESS_NAMES = {"logger": "log.logger", "process": "process.pid"}
_ACCESS = (
    r"^(?P<client>\S+) \S+ (?P<user>\S+) \[(?P<time>\d\d/(?:" + MONTHS + r")/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    r'"(?:(?P<method>[A-Z]+) (?P<url>\S+)(?: HTTP/(?P<version>[0-9.]+))?|[^"]*)" (?P<status>\d{3}) (?P<size>\d+|-)'
)
_ACCESS_NAMES = {
    "client": "client.address",
    "user": "user.name",
    "method": "http.request.method",
    "url": "url.original",
    "version": "network.protocol.version",
    "status": "http.response.status_code",
    "size": "http.response.body.size",
    "referer": "http.request.header.referer",
    "agent": "user_agent.original",
}

# The first of formats that fit equally well is detected: a level after the time is no name of a host.
LOG_FORMATS = (
    LogFormat(
        Format.CRI,
        rf"^(?P<time>{RFC_3339}) (?P<stream>stdout|stderr) (?P<tag>[FP])(?: |$)",
        attributes={"stream": "log.iostream"},
    ),
    LogFormat(
        Format.SYSLOG_5424,
        r"^<(?P<priority>\d{1,3})>1 (?P<time>\S+) (?P<host>\S+) (?P<service>\S+) (?P<process>\S+) (?P<id>\S+) ",
        r'(?P<data>-|(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*")*\])+)(?: (?:\x{FEFF})?(?P<message>(?s:.*)))?$',
        STACK_TRACE,
        attributes={**_SYSLOG_NAMES, "id": "syslog.msgid", "data": "syslog.structured_data"},
        integers=frozenset({"facility"}),
        resource=_SYSLOG_RESOURCE,
    ),
    LogFormat(
        Format.LOGBACK,
        rf"^\[?(?P<time>{ISO}|\d\d/\d\d/\d\d \d\d:\d\d:\d\d)\]?,?\s+(?:-\s+)?(?:\[(?P<thread>.*?)\]\s+)??"
        rf"\[?(?P<severity>(?i:{LEVELS}))\b\]?:?",
        r"\s+(?:(?P<process>\d+)\s+---\s+)?(?:-\s+)?(?:\[(?P<inner>.*?)\]\s+)?"
        r"(?:(?P<logger>[A-Za-z_][\w.$/#@-]*)(?:\s+[-:]|:)\s+|[-:]\s+)?" + REST,
        ANY,
        times=("%y/%m/%d %H:%M:%S",),
        attributes={"thread": "thread.name", "inner": "thread.name", **_PROCESS_NAMES},
        integers=frozenset({"process"}),
    ),
    LogFormat(
        Format.SYSLOG_3164,
        rf"^(?:<(?P<priority>\d{{1,3}})>)?(?P<time>(?:{MONTHS}) [ \d]?\d \d\d:\d\d:\d\d|{RFC_3339}) "
        r"(?P<host>[^\s\[\]]+) ",
        r"(?:(?P<service>[^\s:\[]+?)(?:\[(?P<process>[^\]]*)\])?: ?)?" + REST,
        STACK_TRACE,
        times=("%b %d %H:%M:%S",),
        has_year=False,
        attributes=_SYSLOG_NAMES,
        integers=frozenset({"facility"}),
        resource=_SYSLOG_RESOURCE,
    ),
    LogFormat(
        Format.ACCESS_COMBINED,
        _ACCESS + r' "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"',
        r"(?s:.*)$",
        times=("%d/%b/%Y:%H:%M:%S %z",),
        attributes=_ACCESS_NAMES,
        integers=frozenset({"status", "size"}),
    ),
    LogFormat(
        Format.ACCESS_COMMON,
        _ACCESS,
        r"\s*$",
        times=("%d/%b/%Y:%H:%M:%S %z",),
        attributes=_ACCESS_NAMES,
        integers=frozenset({"status", "size"}),
    ),
    LogFormat(
        Format.APACHE_ERROR,
        rf"^\[(?P<time>[A-Z][a-z]{{2}} (?:{MONTHS}) \d\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? \d{{4}})\] "
        r"\[(?:(?P<logger>[^\]:]*):)?(?P<severity>[a-z0-9]+)\] ",
        r"(?:\[pid (?P<process>\d+)(?::tid (?P<thread>\d+))?\] )?(?:\[client (?P<client>[^\]]+)\] )?" + REST,
        STACK_TRACE,
        times=("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S.%n %Y"),
        attributes={**_PROCESS_NAMES, "thread": "thread.id", "client": "client.address"},
        integers=frozenset({"process", "thread"}),
    ),
)  # fmt: skip
BY_NAME = {form.name: form for form in LOG_FORMATS}


def detect_log_format(lines: pa.StringArray) -> LogFormat:
    """Return the format that most of the first lines have. Raises `UnknownLines` if there is none."""
    shares = {form.name: _share(form, lines) for form in LOG_FORMATS}
    best = max(LOG_FORMATS, key=lambda form: shares[form.name])  # the first of equal ones
    if shares[best.name] < MIN_SHARE:
        known = ", ".join(form.name for form in LOG_FORMATS)
        raise UnknownLines(
            f"its first {len(lines)} lines have no known log format ({known})",
            hint="pass --format, or convert the file to JSON lines",
        )
    return best


def _share(form: LogFormat, lines: pa.StringArray) -> float:
    """Return the share of lines that begin a record of the format, among those that may begin one."""
    starts = _count(pc.match_substring_regex(lines, form.start))
    candidates = len(lines) - _count(pc.match_substring_regex(lines, STACK_TRACE))
    return starts / candidates if candidates > 0 else 0.0


def _count(mask: pa.BooleanArray) -> int:
    return int(np.count_nonzero(mask.to_numpy(zero_copy_only=False)))
