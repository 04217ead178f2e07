"""Rules over the lake: series come from the query service, for one organization.

Groups are evaluated by a program of the query service, with the limits and the workers of queries.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.app.query.promql import add_tables, open_series
from neve.app.query.service import build_query_service
from neve.errors import InvalidRules
from neve.query.engine.program import Program
from neve.query.request import Request
from neve.query.service import no_limits
from neve.raw.zone import OTLP, RawZone
from neve.rules.rule_file import load_rules
from neve.rules.running.group_documents import build_result, describe_group, describe_options, describe_state
from neve.rules.running.group_program import FUNCTION
from neve.rules.running.range_program import FUNCTION as RANGE_FUNCTION
from neve.rules.running.recorded_rows import GroupKey
from neve.rules.running.runner import RuleRunner, RunnerPorts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.promql.series import SeriesSource
    from neve.query.service import QueryService
    from neve.rules.evaluation import RuleResult
    from neve.rules.rule_file import Group
    from neve.rules.running.corrector import RangeRequest
    from neve.rules.running.runner import GroupRequest

__all__ = ["build_runner", "find_complete_ms", "open_rule_series"]

TABLES = ("metrics",)


@contextmanager
def open_rule_series(settings: Settings, lake: Lake, organization: str) -> Iterator[SeriesSource]:
    """Open the series of one organization for the operator, who has no limits. A replay reads no result twice."""
    query = settings.query.model_copy(update={"cache_bytes": 0})
    service = build_query_service(settings.model_copy(update={"query": query}), lake, limits=no_limits)
    try:
        yield open_series(service, organization)
    finally:
        service.close()


def build_runner(
    settings: Settings,
    lake: Lake,
    service: QueryService,
    files: Mapping[str, Sequence[str]] | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> RuleRunner:
    """Build the runner of the configured rule files, or of others. Raises `InvalidRules` for files with errors."""
    config = settings.rules
    ports = RunnerPorts(
        lambda request: evaluate_group(service, request, config.timeout_seconds),
        lambda request: evaluate_range(service, request, config.timeout_seconds),
        lambda: find_complete_ms(settings, now_ms()),
        now_ms,
    )
    return RuleRunner(lake, config, load_all_groups(config.files if files is None else files), ports)


def evaluate_group(service: QueryService, request: GroupRequest, seconds: float) -> list[RuleResult]:
    """Evaluate a group within the limits of its organization. Raises `QueryError` if that fails as a whole."""
    arguments = {
        "states": [describe_state(one) for one in request.states],
        "time_ms": request.time_ms,
        "options": describe_options(request.options),
    }
    found = _run_program(service, FUNCTION, request, arguments, seconds)
    return [build_result(one) for one in found]


def evaluate_range(service: QueryService, request: RangeRequest, seconds: float) -> list[list[Any] | None]:
    """Evaluate the recording rules of a group at many times. Raises `QueryError` if that fails as a whole."""
    arguments = {name: getattr(request, name) for name in ("start_ms", "end_ms", "step_ms")}
    return _run_program(service, RANGE_FUNCTION, request, arguments, seconds)


def _run_program(
    service: QueryService,
    function: str,
    request: GroupRequest | RangeRequest,
    arguments: Mapping[str, Any],
    seconds: float,
) -> list[Any]:
    """Run a program about a group, and return the document that it yields."""
    limits = service.limits_of(request.organization, "")
    given = {
        "group": describe_group(request.group),
        "seconds": min(filter(None, (seconds, limits.seconds))),
        **arguments,
    }
    query = Request(f"rules of group {request.group.name}", request.organization, timeout_seconds=seconds)
    running = service.start_program(query, add_tables(service, Program(function, given, TABLES)))
    body = b"".join(piece for batch in running.batches() for piece in batch.column(0).to_pylist())
    found: list[Any] = json.loads(body)
    return found


def find_complete_ms(settings: Settings, now_ms: int) -> int:
    """Return the time up to which all data that receivers acknowledged is committed.

    An open segment is younger than `raw.segment_seconds`. A sealed one is in the tables, or counts by its age.
    """
    backlog = RawZone.of(settings.raw.location, settings.s3, OTLP).backlog()
    oldest = min((segment.modified * 1000 for segment in backlog), default=float(now_ms))
    return int(min(now_ms, oldest) - settings.raw.segment_seconds * 1000)


def load_all_groups(files: Mapping[str, Sequence[str]]) -> dict[GroupKey, Group]:
    """Return the groups of each organization. Raises `InvalidRules` for a file that has errors or does not exist."""
    found: dict[GroupKey, Group] = {}
    for organization, patterns in files.items():
        for path in _list_paths(organization, patterns):
            for group in load_rules([Path(path)]):
                found[GroupKey(organization, path, group.name)] = group
    return found


def _list_paths(organization: str, patterns: Sequence[str]) -> list[str]:
    """Return the files of patterns, each once. A pattern may match nothing, a plain name may not."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matched = sorted(glob(str(Path(pattern).expanduser())))
        if not matched and not any(char in pattern for char in "*?["):
            raise InvalidRules(
                f"rules.files has {pattern!r} of {organization}, which does not exist",
                hint="name a rule file, or a pattern such as rules/*.yml",
            )
        found |= dict.fromkeys(matched)
    return list(found)
