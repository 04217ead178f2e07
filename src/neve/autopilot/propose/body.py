"""What a proposal says, in Markdown: what changes, what it brings, what it costs, and how to take it back."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from neve.autopilot.propose.markdown import code, fenced, plain, table
from neve.autopilot.propose.spec import TableSpec, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.propose.proposal import CanaryLine, Proposal, Reduction

NAMES = {
    "partition": "partition",
    "sort": "sort order",
    "zorder": "z-order",
    "promote": "promoted column",
    "bloom": "bloom filter",
    "file_size": "file size",
}
# Forges take some 65,000 characters; git has no such limit, and people have a lower one.
MOST_ROWS = 20  # of any list
LONGEST_TEXT = 300  # characters
LONGEST_TITLE = 200
UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


def title_of(proposal: Proposal) -> str:
    """The proposal in one line."""
    reduction = proposal.measured or proposal.estimate
    rest = f": {NAMES[proposal.kind]}, {reduction.pct:.0f} % less to scan"
    return cut(" ".join(proposal.table.split()), LONGEST_TITLE - len(rest)) + rest


def message_of(proposal: Proposal) -> str:
    """The message of the commit; short, for `git am` takes a diff for the patch, and `From:` for the author."""
    return (
        f"{title_of(proposal)}\n\n"
        f"Before: {' '.join(str(proposal.before).split())}\n"
        f"After: {' '.join(str(proposal.after).split())}\n\n"
        f"Neve-Proposal: {proposal.id}\n"
    )


def body_of(proposal: Proposal, *, allow_literals: bool = False) -> str:
    """The whole proposal; queries are shown without their literals unless those are allowed."""
    return "\n\n".join(_sections(proposal, allow_literals)) + "\n"


def stale_body(body: str, reason: str) -> str:
    """What a proposal says whose table has moved on."""
    return f"**Stale:** {plain(reason)}.\n\n{body}"


def cut(text: str, most: int) -> str:
    """A text that is not too long.

    >>> cut("telemetry", 5), cut("spans", 5)
    ('tele…', 'spans')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def size(count: int) -> str:
    """Bytes in words.

    >>> size(512), size(3 * 1024**2)
    ('512 bytes', '3.0 MB')
    """
    value, unit = float(count), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {UNITS[unit]}" if unit else f"{count} bytes"


def _sections(proposal: Proposal, allow_literals: bool) -> Iterator[str]:
    yield f"The autopilot proposes another layout of {code(proposal.table)} ({size(proposal.table_bytes)})."
    if proposal.reasons:
        lines = [f"- {plain(cut(reason, LONGEST_TEXT))}" for reason in proposal.reasons[:MOST_ROWS]]
        yield "## Why\n\n" + "\n".join(lines) + _more(len(proposal.reasons), "reasons")
    yield f"## Change\n\nIt is {plain(str(proposal.before))}.\nIt becomes {plain(str(proposal.after))}."
    yield fenced(spec_diff(proposal), "diff")
    yield "## Expected\n\n" + _expected(proposal)
    yield "## Canary\n\n" + _canary(proposal)
    if allow_literals and any(line.example for line in proposal.canary):
        yield "## Queries\n\n" + "\n\n".join(
            f"{code(line.fingerprint)}\n\n{fenced(cut(line.example, LONGEST_TEXT), 'sql')}"
            for line in _shown(proposal)
            if line.example
        )
    yield "## Cost\n\n" + _cost(proposal)
    yield (
        "## Rollback\n\nAt any time while the tag of the old layout lives:\n\n"
        f"{fenced(proposal.rollback_command, 'sh')}"
    )
    if proposal.rejected:
        rows = [
            (plain(cut(one.layout, LONGEST_TEXT)), plain(cut(one.reason, LONGEST_TEXT)))
            for one in proposal.rejected[:MOST_ROWS]
        ]
        listed = table(("layout", "why not"), rows)
        yield f"## Rejected candidates\n\n{listed}{_more(len(proposal.rejected), 'candidates')}"
    yield f"Proposal {code(proposal.id)}, made {proposal.created:%Y-%m-%d %H:%M} UTC."


def spec_diff(proposal: Proposal) -> str:
    """The change of the spec, line by line."""
    before, after = (
        written(TableSpec(proposal.table, layout)).splitlines() for layout in (proposal.before, proposal.after)
    )
    return "\n".join(difflib.unified_diff(before, after, "before", "after", n=2, lineterm=""))


def _expected(proposal: Proposal) -> str:
    rows = [("estimate, from a sample", *_cells(proposal.estimate))]
    if proposal.measured:
        rows.append(("canary, on the branch", *_cells(proposal.measured)))
    return table(("bytes scanned by the logged queries", "less", "at least", "at most"), rows)


def _cells(reduction: Reduction) -> tuple[str, str, str]:
    return f"{reduction.pct:.1f} %", f"{reduction.low_pct:.1f} %", f"{reduction.high_pct:.1f} %"


def _canary(proposal: Proposal) -> str:
    if not proposal.canary:
        return "No canary was run."
    equal, count = sum(line.equal for line in proposal.canary), len(proposal.canary)
    head = ("query", "results", "bytes on main", "bytes on the branch", "seconds on main", "seconds on the branch")
    listed = table((*head, "text without literals"), (_line(line) for line in _shown(proposal)))
    said = f"{equal} of {count} queries gave the same result on main and on the branch."
    return f"{said}\n\n{listed}{_more(count, 'queries')}"


def _shown(proposal: Proposal) -> list[CanaryLine]:
    """The queries that are listed: those that differ, then those that read most."""
    return sorted(proposal.canary, key=lambda line: (line.equal, -line.bytes_main))[:MOST_ROWS]


def _more(count: int, what: str) -> str:
    return f"\n\n{count - MOST_ROWS} more {what} are not listed." if count > MOST_ROWS else ""


def _line(line: CanaryLine) -> tuple[str, ...]:
    return (
        code(line.fingerprint),
        "equal" if line.equal else "**different**",
        size(line.bytes_main),
        size(line.bytes_branch),
        f"{line.seconds_main:.2f}",
        f"{line.seconds_branch:.2f}",
        code(cut(line.text, LONGEST_TEXT)),
    )


def _cost(proposal: Proposal) -> str:
    pays = "never pays back" if proposal.payback_days is None else f"pays back in {proposal.payback_days:.1f} days"
    return f"The rewrite takes about {proposal.cost_seconds:.0f} s and {proposal.cost_dollars:.2f} dollars; it {pays}."
