"""`neve logs`: print log lines of the lake or of a server, and follow new ones."""

from __future__ import annotations

import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import click

from neve.cli.output import escape_controls, org_option, print_json_line, print_note, print_text
from neve.cli.time_options import SinceParam
from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from neve.cli.context import Context

POLL_SECONDS = 1.0
RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0)  # pauses before attempts to connect again
MAX_REMEMBERED = 20_000  # lines that a new connection may repeat
OVERLAP_NS = 60 * 10**9  # a new connection begins so long before the last line, because commits overtake each other
MAX_LINES = 5000
_LEVEL_COLORS = {"warn": "yellow", "error": "red", "fatal": "red", "critical": "red", "debug": "blue", "trace": "blue"}
_SERVICE_COLORS = ("cyan", "green", "magenta", "blue", "yellow")
_HIDDEN = frozenset({"service_name", "detected_level", "severity_number", "severity_text", "scope_name"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """Line with its time in nanoseconds and its labels."""

    time_ns: int
    text: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines in order of time, and the number of lines that were left out before them."""

    lines: list[LogLine]
    skipped: int = 0


class LogLines(Protocol):
    """Place that log lines come from."""

    def follow(self, query: str, start_ns: int, limit: int) -> Iterator[Batch]:
        """Yield the newest lines since a time, then new ones for ever."""

    def read(self, query: str, start_ns: int, limit: int) -> Batch:
        """Return the newest lines since a time."""


@click.command()
@click.argument("selector")
@click.option("--follow", "-f", is_flag=True, help="Print new lines until interrupted.")
@click.option("--since", type=SinceParam(), metavar="TIME", help="Lines from this time on.  [default: 1h ago]")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, MAX_LINES),
    default=100,
    show_default=True,
    help="Lines at the start, and of each batch that --follow prints.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: timestamp in nanoseconds, line, labels.")
@click.option("--labels", "has_labels", is_flag=True, help="Print all labels after each line.")
@click.option("--server", metavar="ADDRESS", help="Read from a server, for example http://127.0.0.1:8480.")
@click.option("--key", envvar="NEVE_API_KEY", help="API key for the server.  [env: NEVE_API_KEY]")
@org_option
@click.pass_obj
def logs(
    context: Context,
    selector: str,
    follow: bool,
    since: datetime | None,
    limit: int,
    as_json: bool,
    has_labels: bool,
    server: str | None,
    key: str | None,
    org: str | None,
) -> None:
    """Print log lines, the oldest first. SELECTOR is a log query of LogQL, or the name of a service.

    --follow prints lines as they are committed, about every ten seconds. It reports lines that it skipped, and with
    --server it connects again after the server was restarted.

    \b
    Examples:
      neve logs shop
      neve logs -f '{service_name="shop"} |= "timeout"'
      neve logs -f '{k8s_namespace_name="prod"} | json | status >= 500' --server http://127.0.0.1:8480
    """
    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key selects the organization",
            hint="omit --org, and pass a key of that organization with --key",
        )
    query = _complete(selector)
    start_ns = int(since.timestamp() * 1e6) * 1000 if since else time.time_ns() - 3600 * 10**9
    source = _open_source(context, server, key, org)
    batches = source.follow(query, start_ns, limit) if follow else [source.read(query, start_ns, limit)]
    _print_batches(batches, as_json=as_json, has_labels=has_labels)


def _complete(selector: str) -> str:
    """Return the query of a selector, which may be the name of a service. Raises `InvalidExpression`."""
    from neve.lexical.literals import quote
    from neve.logql.language.parser import parse_selector

    query = selector if "{" in selector else f"{{service_name={quote(selector)}}}"
    parse_selector(query)
    return query


def _open_source(context: Context, server: str | None, key: str | None, org: str | None) -> LogLines:
    if server:
        from neve.cli.querying.remote_logs import RemoteLogs

        return RemoteLogs(server, key, print_note, tls=context.settings.client)
    return LocalLogs(context, context.organization(org))


def _print_batches(batches: Iterable[Batch], *, as_json: bool, has_labels: bool) -> None:
    for batch in batches:
        if batch.skipped:
            print_note(f"note: skipped {batch.skipped:,} lines or more: narrow the selector, or raise --limit")
        for line in batch.lines:
            if as_json:
                print_json_line({"timestamp": line.time_ns, "line": line.text, "labels": line.labels})
            else:
                print_text(format_line(line, has_labels=has_labels))


def format_line(line: LogLine, *, has_labels: bool) -> str:
    """Return a line for a terminal: time, level, service and text, in colours."""
    from datetime import UTC, datetime

    seconds, rest = divmod(line.time_ns, 10**9)
    moment = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
    level, service = line.labels.get("detected_level", "unknown"), line.labels.get("service_name", "")
    color = _SERVICE_COLORS[zlib.crc32(service.encode()) % len(_SERVICE_COLORS)]
    parts = [
        click.style(moment, dim=True),
        click.style(f"{level:<5}", fg=_LEVEL_COLORS.get(level)) if level != "unknown" else "-    ",
        click.style(escape_controls(service), fg=color),
        escape_controls(line.text),
    ]
    if has_labels:
        shown = " ".join(f"{name}={value}" for name, value in sorted(line.labels.items()) if name not in _HIDDEN)
        parts.append(click.style(escape_controls(shown), dim=True))
    return " ".join(part for part in parts if part)


@dataclass
class LocalLogs:
    """Lines of the lake, read in this process."""

    context: Context
    organization: str

    def read(self, query: str, start_ns: int, limit: int) -> Batch:
        """Return the newest lines since a time."""
        return next(self.follow(query, start_ns, limit))

    def follow(self, query: str, start_ns: int, limit: int) -> Iterator[Batch]:
        """Yield the newest lines, then those of new commits."""
        from neve.app.query.logql import open_logs
        from neve.app.query.service import build_query_service
        from neve.logql.follow import begin, poll
        from neve.logql.language.parser import parse_selector
        from neve.query.engine_errors import planning_errors
        from neve.query.service import no_limits

        service = build_query_service(self.context.settings, self.context.lake, limits=no_limits)
        node = parse_selector(query)
        reader = open_logs(service, self.organization)
        try:
            with planning_errors():
                found = begin(reader, node, start_ns, time.time_ns(), limit)
            while True:
                yield Batch([LogLine(one.time_ns, one.line, one.labels()) for one in found.entries], found.skipped)
                time.sleep(POLL_SECONDS)
                with planning_errors():
                    found = poll(reader, node, found.state, limit)
        finally:
            service.close()


@dataclass
class Repeats:
    """Lines that were printed, so that a new connection does not print them again."""

    known: OrderedDict[tuple[int, str, tuple[tuple[str, str], ...]], None] = field(default_factory=OrderedDict)

    def drop(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Return the lines that are new."""
        fresh = []
        for line in lines:
            key = (line.time_ns, line.text, tuple(sorted(line.labels.items())))
            if key not in self.known:
                self.known[key] = None
                fresh.append(line)
        while len(self.known) > MAX_REMEMBERED:
            self.known.popitem(last=False)
        return fresh


def read_streams(streams: list[dict[str, Any]]) -> list[LogLine]:
    """Return the lines of Loki's streams in order of time."""
    found = [LogLine(int(value[0]), value[1], stream["stream"]) for stream in streams for value in stream["values"]]
    return sorted(found, key=lambda one: one.time_ns)
