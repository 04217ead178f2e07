"""`neve tail explain`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import emit, json_option, note, org_option, say, table

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.tail.explain import Explained
    from neve.tail.single import JudgedTrace

REASONS = {
    "inactive": "no span has come for so long",
    "max_duration": "it is not waited for longer",
    "root_ended": "its root span has come",
    "memory": "there was no room for it any more",
}


class TraceId(click.ParamType["bytes"]):
    """The id of a trace in hexadecimal."""

    name = "trace id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Its bytes."""
        if isinstance(value, bytes):
            return value
        if not re.fullmatch(r"[0-9a-fA-F]{32}", str(value)):
            self.fail(f"{value!r} is no trace id, expected 32 hexadecimal digits", param, ctx)
        return bytes.fromhex(value)


@click.command()
@click.argument("trace_id", type=TraceId(), metavar="TRACE_ID")
@org_option
@click.option(
    "--policies",
    metavar="FILE",
    help="Policies to ask, the collector's tail_sampling in YAML.  [default: tail.policies]",
)
@json_option
@click.pass_obj
def explain(context: Context, trace_id: bytes, org: str | None, policies: str | None, as_json: bool) -> None:
    """Why a trace was kept or not: every decision about it, whether it is still open, and each policy's vote now."""
    from neve.app.tail import build_selector
    from neve.errors import LakeError
    from neve.tail.explain import UNKNOWN
    from neve.tail.explain import explain as look

    owner = context.organization(org or context.settings.tail.source.organization or None)
    told = look(build_selector(context.settings, context.lake, policies=policies), owner, trace_id)
    if told.state == UNKNOWN:
        raise LakeError(
            f"nothing is known of a trace {told.trace_id} of {owner}: looked into {', '.join(told.tables)}",
            hint="check the id, and the organization with --org",
        )
    if as_json:
        emit(told.as_document())
    else:
        show(told)


def show(told: Explained) -> None:
    """All that is known of a trace."""
    say(f"trace {told.trace_id} of {told.organization}: {_headline(told)}")
    if told.now is not None:
        _show_trace(told.now)
    _show_open(told)
    _show_decisions(told)
    if told.now is not None:
        _show_votes(told, told.now)
    for text in told.notes:
        note(f"note: {text}")


def _headline(told: Explained) -> str:
    if told.decisions:
        last = next((one for one in reversed(told.decisions) if one.selector == told.selector), told.decisions[-1])
        if last.taken_by:
            return f"kept, by the selector {last.taken_by} before {last.selector}"
        if last.kind == "late":
            first = next(
                one for one in reversed(told.decisions) if one.selector == last.selector and one.kind != "late"
            )
            return f"{first.reason}; then {last.reason}"
        return last.reason
    if told.open:
        return "not decided yet"
    return "its spans are there, but no cycle has read them yet"


def _show_trace(one: JudgedTrace) -> None:
    error = ", with an error" if one.has_error else ""
    say(
        f"  {_many(one.spans)}, {one.duration_ms:,.1f} ms{error}; begins with {one.service or 'an unknown service'}, "
        f"{one.operation or 'an unknown operation'}, at {_time(one.begin)}"
    )


def _show_open(told: Explained) -> None:
    for one in told.open:
        ready = ""
        if one.ready_at is not None:
            ready = f", ready at {_time(one.ready_at)} ({REASONS.get(one.ready_because, one.ready_because)})"
        say(f"  open for {one.selector}: {_many(one.span_count)}, the last one seen at {_time(one.last_seen)}{ready}")
    if not told.open and not told.decisions and told.now is not None:
        say(f"  ready at {_time(told.now.ready_at)} ({REASONS[told.now.ready_because]})")


def _show_decisions(told: Explained) -> None:
    if not told.decisions:
        return
    say()
    table(
        ("decided at", "selector", "revision", "decision", "spans", "stands for", "reason"),
        [
            (
                *(_time(one.decided_at), one.selector, f"{one.revision} {one.kind}", one.decision.replace("_", " ")),
                *(f"{one.span_count:,}", f"{one.adjusted_count:,.1f}" if one.adjusted_count else "", one.reason),
            )
            for one in told.decisions
        ],
        right=(4, 5),
    )


def _show_votes(told: Explained, now: JudgedTrace) -> None:
    say()
    say(f"the policies now ({told.semantics}): {now.reason}")
    table(
        ("  policy", "type", "vote", "why"),
        [(f"  {one.policy}", one.kind, one.vote.replace("_", " "), one.reason) for one in now.votes],
    )


def _many(spans: int) -> str:
    """A number of spans.

    >>> _many(1), _many(2000)
    ('1 span', '2,000 spans')
    """
    return f"{spans:,} span{'' if spans == 1 else 's'}"


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")
