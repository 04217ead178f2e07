"""`neve tail explain`: the decisions about one trace, whether it is open, and the vote of each policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, org_option, print_json, print_note, print_table, print_text
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.tail.explain import JudgedTrace, TraceExplanation

REASONS = {
    "inactive": "no span arrived within the idle time",
    "max_duration": "the maximum wait is over",
    "root_ended": "its root span has arrived",
    "memory": "the memory limit was reached",
}


class TraceIdParam(click.ParamType["bytes"]):
    """A trace id in hexadecimal."""

    name = "trace id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the bytes of the trace id."""
        if isinstance(value, bytes):
            return value
        if not re.fullmatch(r"[0-9a-fA-F]{32}", str(value)):
            self.fail(f"{value!r} is not a trace id, expected 32 hexadecimal digits", param, ctx)
        return bytes.fromhex(value)


@click.command(short_help="Explain the decision about a trace, policy by policy.")
@click.argument("trace_id", type=TraceIdParam(), metavar="TRACE_ID")
@org_option
@click.option(
    "--policies",
    metavar="FILE",
    help="YAML file with the policies to evaluate.  [default: tail.policies]",
)
@json_option
@click.pass_obj
def explain(context: Context, trace_id: bytes, org: str | None, policies: str | None, as_json: bool) -> None:
    """Explain the sampling decision of a trace: all decisions, whether it is open, and each policy's vote now."""
    from neve.app.tail import build_selector
    from neve.errors import LakeError
    from neve.tail.explain import UNKNOWN
    from neve.tail.explain import explain_trace as look

    owner = context.organization(org or context.settings.tail.source.organization or None)
    explanation = look(build_selector(context.settings, context.lake, policies=policies), owner, trace_id)
    if explanation.state == UNKNOWN:
        raise LakeError(
            f"no data about trace {explanation.trace_id} of {owner}: searched {', '.join(explanation.tables)}",
            hint="check the id, and the organization with --org",
        )
    if as_json:
        print_json(explanation.as_document())
    else:
        show_explanation(explanation)


def show_explanation(explanation: TraceExplanation) -> None:
    """Print all facts about a trace."""
    print_text(f"trace {explanation.trace_id} of {explanation.organization}: {_headline(explanation)}")
    if explanation.now is not None:
        _show_trace(explanation.now)
    _show_open(explanation)
    _show_decisions(explanation)
    if explanation.now is not None:
        _show_votes(explanation, explanation.now)
    for text in explanation.notes:
        print_note(f"note: {text}")


def _headline(explanation: TraceExplanation) -> str:
    if explanation.decisions:
        last = next(
            (one for one in reversed(explanation.decisions) if one.selector == explanation.selector),
            explanation.decisions[-1],
        )
        if last.taken_by:
            return f"kept, by the selector {last.taken_by} before {last.selector}"
        if last.kind == "late":
            first = next(
                one for one in reversed(explanation.decisions) if one.selector == last.selector and one.kind != "late"
            )
            return f"{first.reason}; then {last.reason}"
        return last.reason
    if explanation.open:
        return "not decided yet"
    return "its spans are stored, but no cycle has read them yet"


def _show_trace(one: JudgedTrace) -> None:
    error = ", with an error" if one.has_error else ""
    print_text(
        f"  {format_count(one.spans, 'span')}, {format_duration(one.duration_ms / 1000)}{error}; "
        f"begins with {one.service or 'an unknown service'}, "
        f"{one.operation or 'an unknown operation'}, at {_format_time(one.begin)}"
    )


def _show_open(explanation: TraceExplanation) -> None:
    for one in explanation.open:
        ready = ""
        if one.ready_at is not None:
            ready = f", ready at {_format_time(one.ready_at)} ({REASONS.get(one.ready_because, one.ready_because)})"
        print_text(
            f"  open for {one.selector}: {format_count(one.span_count, 'span')}, "
            f"the last one seen at {_format_time(one.last_seen)}{ready}"
        )
    if not explanation.open and not explanation.decisions and explanation.now is not None:
        print_text(f"  ready at {_format_time(explanation.now.ready_at)} ({REASONS[explanation.now.ready_because]})")


def _show_decisions(explanation: TraceExplanation) -> None:
    if not explanation.decisions:
        return
    print_text()
    print_table(
        ("decided at", "selector", "revision", "decision", "spans", "represents", "reason"),
        [
            (
                *(
                    _format_time(one.decided_at),
                    one.selector,
                    f"{one.revision} {one.kind}",
                    one.decision.replace("_", " "),
                ),
                *(f"{one.span_count:,}", f"{one.adjusted_count:,.1f}" if one.adjusted_count else "", one.reason),
            )
            for one in explanation.decisions
        ],
        right=(4, 5),
    )


def _show_votes(explanation: TraceExplanation, now: JudgedTrace) -> None:
    print_text()
    print_text(f"the policies now ({explanation.semantics}): {now.reason}")
    print_table(
        ("  policy", "type", "vote", "why"),
        [(f"  {one.policy}", one.kind, one.vote.replace("_", " "), one.reason) for one in now.votes],
    )


def _format_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")
