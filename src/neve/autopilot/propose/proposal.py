"""Proposal of one change of a table's layout: its data, the names of its branch and files, and its text in Markdown.

The text shows the change, the expected gain, the canary, the cost and the rollback. Names and texts are escaped.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from pydantic import TypeAdapter

from neve.autopilot.layout import Layout, TableSpec, format_spec
from neve.errors import ConfigError
from neve.text import format_bytes, format_dollars, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


BRANCH_PREFIX = "neve/autopilot"
PROPOSAL_ID_DIGITS = 12
# Dots that git rejects in the name of a branch: at either end, two in a row, and before a final `lock`.
_FORBIDDEN_DOT = re.compile(r"^\.|\.(?=\.)|\.(?=lock$)|\.$")


def escape_name(text: str) -> str:
    """Escape a text as one part of a branch name or a path; different texts have different results.

    >>> escape_name("telemetry.spans"), escape_name("a b/c~..d.lock")
    ('telemetry.spans', 'a%20b%2Fc%7E%2E.d%2Elock')
    """
    if not text:
        raise ConfigError("a table's name is empty, expected a namespace and a name")
    return _FORBIDDEN_DOT.sub("%2E", quote(text, safe="").replace("~", "%7E"))


def proposal_branch(table: str, proposal_id: str) -> str:
    """Return the branch of a proposal."""
    return f"{BRANCH_PREFIX}/{escape_name(table)}/{escape_name(proposal_id)}"


def spec_path(folder: str, table: str) -> str:
    """Return the path of a table's spec in the repository."""
    name = f"{escape_name(table)}.yaml"
    return f"{folder}/{name}" if folder else name


def proposal_path(table: str, proposal_id: str) -> str:
    """Return the path of the file that describes a proposal where no forge shows it."""
    return f"proposals/{escape_name(table)}/{escape_name(proposal_id)}.md"


def make_proposal_id(table: str, before: Layout, after: Layout) -> str:
    """Return the id of a change.

    The same change has the same id, so that a repeated proposal updates the existing one.
    """
    return hashlib.sha256(repr((table, before, after)).encode()).hexdigest()[:PROPOSAL_ID_DIGITS]


LayoutKind = Literal["partition", "sort", "zorder", "promote", "bloom", "file_size"]


@dataclass(frozen=True)
class Reduction:
    """Reduction of scanned bytes in percent of the current ones, with its interval."""

    pct: float
    low_pct: float
    high_pct: float


@dataclass(frozen=True)
class CanaryLine:
    """One hot query, on main and on the branch with the new layout."""

    fingerprint: str
    equal: bool  # whether the results are equal
    bytes_main: int
    bytes_branch: int
    seconds_main: float
    seconds_branch: float
    text: str = ""  # without literals
    example: str = ""  # with its literals; shown only if that is allowed


@dataclass(frozen=True)
class RejectedCandidate:
    """A layout that was evaluated and not chosen."""

    layout: str
    reason: str


@dataclass(frozen=True)
class Proposal:
    """Data of a proposal; every text except the example of a query must be without literal values."""

    id: str
    table: str
    kind: LayoutKind
    before: Layout
    after: Layout
    created: datetime
    table_bytes: int
    estimate: Reduction
    cost_seconds: float
    cost_dollars: float
    payback_days: float | None  # None: never
    rollback_command: str
    measured: Reduction | None = None  # by the canary
    canary: tuple[CanaryLine, ...] = ()
    reasons: tuple[str, ...] = ()
    rejected: tuple[RejectedCandidate, ...] = ()

    def __post_init__(self) -> None:
        if self.before == self.after:
            raise ValueError(f"the proposal {self.id} does not change {self.table}")

    @property
    def canary_passed(self) -> bool:
        """Return whether queries were compared and every result was equal."""
        return bool(self.canary) and all(line.equal for line in self.canary)

    @property
    def least_reduction_pct(self) -> float:
        """The reduction that is certain: the lower bound of the estimate, or of the canary if that is smaller."""
        return min(one.low_pct for one in (self.estimate, self.measured) if one is not None)

    def as_document(self) -> dict[str, Any]:
        """Return the proposal as a JSON document."""
        document: dict[str, Any] = _PROPOSAL.dump_python(self, mode="json")
        return document

    @classmethod
    def of(cls, document: object) -> Proposal:
        """Return the proposal in a document."""
        return _PROPOSAL.validate_python(document)


_PROPOSAL = TypeAdapter(Proposal)


_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")
_TICKS = re.compile(r"`+")
INERT_AT = "@\u200b"  # an at-sign that mentions no user


def escape_text(text: str) -> str:
    r"""Escape a text so that it is one line without markup.

    >>> escape_text("a|b <i>\nc")
    'a\\|b \\<i\\> c'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", INERT_AT)


def format_code(text: str) -> str:
    """Format a text as code on one line; valid in a table too."""
    line = " ".join(text.split()).replace("|", "\\|")
    ticks = "`" * (_count_ticks(line) + 1)
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else ""


def format_fence(text: str, language: str = "") -> str:
    """Format lines as a code block, with a fence that none of them closes."""
    fence = "`" * max(3, _count_ticks(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _count_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


KIND_NAMES = {
    "partition": "partition",
    "sort": "sort order",
    "zorder": "z-order",
    "promote": "promoted column",
    "bloom": "bloom filter",
    "file_size": "file size",
}
# Forges accept about 65,000 characters. Git has no such limit, and readers have a lower one.
MAX_ROWS = 20  # of any list
MAX_TEXT = 300  # characters
MAX_TITLE = 200


def format_title(proposal: Proposal) -> str:
    """Return the proposal on one line."""
    reduction = proposal.measured or proposal.estimate
    rest = f": {KIND_NAMES[proposal.kind]}, {reduction.pct:.0f} % less to scan"
    return truncate_text(" ".join(proposal.table.split()), MAX_TITLE - len(rest)) + rest


def format_message(proposal: Proposal) -> str:
    """Return the commit message.

    It is short, because `git am` parses a diff in it as the patch, and `From:` as the author.
    """
    return (
        f"{format_title(proposal)}\n\n"
        f"Before: {' '.join(str(proposal.before).split())}\n"
        f"After: {' '.join(str(proposal.after).split())}\n\n"
        f"Neve-Proposal: {proposal.id}\n"
    )


def format_body(proposal: Proposal, *, allow_literals: bool = False) -> str:
    """Return the whole proposal; queries are shown with their literals only if that is allowed."""
    return "\n\n".join(_format_sections(proposal, allow_literals)) + "\n"


def format_stale_body(body: str, reason: str) -> str:
    """Return the text of a proposal whose table has changed since."""
    return f"**Stale:** {escape_text(reason)}.\n\n{body}"


def truncate_text(text: str, most: int) -> str:
    """Truncate a text to a maximum length.

    >>> truncate_text("telemetry", 5), truncate_text("spans", 5)
    ('tele…', 'spans')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _format_sections(proposal: Proposal, allow_literals: bool) -> Iterator[str]:
    yield (
        f"The autopilot proposes a new layout for {format_code(proposal.table)} ({format_bytes(proposal.table_bytes)})."
    )
    if proposal.reasons:
        lines = [f"- {escape_text(truncate_text(reason, MAX_TEXT))}" for reason in proposal.reasons[:MAX_ROWS]]
        yield "## Why\n\n" + "\n".join(lines) + _format_more(len(proposal.reasons), "reasons")
    yield f"## Change\n\nBefore: {escape_text(str(proposal.before))}.\nAfter: {escape_text(str(proposal.after))}."
    yield format_fence(format_spec_diff(proposal), "diff")
    yield "## Expected\n\n" + _format_expected(proposal)
    yield "## Canary\n\n" + _format_canary(proposal)
    if allow_literals and any(line.example for line in proposal.canary):
        yield "## Queries\n\n" + "\n\n".join(
            f"{format_code(line.fingerprint)}\n\n{format_fence(truncate_text(line.example, MAX_TEXT), 'sql')}"
            for line in _select_lines(proposal)
            if line.example
        )
    yield "## Cost\n\n" + _format_cost(proposal)
    yield (
        "## Rollback\n\nAt any time while the tag of the old layout exists:\n\n"
        f"{format_fence(proposal.rollback_command, 'sh')}"
    )
    if proposal.rejected:
        rows = [
            (escape_text(truncate_text(one.layout, MAX_TEXT)), escape_text(truncate_text(one.reason, MAX_TEXT)))
            for one in proposal.rejected[:MAX_ROWS]
        ]
        listed = format_table(("layout", "why not"), rows)
        yield f"## Rejected candidates\n\n{listed}{_format_more(len(proposal.rejected), 'candidates')}"
    yield f"Proposal {format_code(proposal.id)}, made {proposal.created:%Y-%m-%d %H:%M} UTC."


def format_spec_diff(proposal: Proposal) -> str:
    """Return the diff of the spec, line by line."""
    before, after = (
        format_spec(TableSpec(proposal.table, layout)).splitlines() for layout in (proposal.before, proposal.after)
    )
    return "\n".join(difflib.unified_diff(before, after, "before", "after", n=2, lineterm=""))


def _format_expected(proposal: Proposal) -> str:
    rows = [("estimate, from a sample", *_format_cells(proposal.estimate))]
    if proposal.measured:
        rows.append(("canary, on the branch", *_format_cells(proposal.measured)))
    return format_table(("bytes scanned by the logged queries", "less", "at least", "at most"), rows)


def _format_cells(reduction: Reduction) -> tuple[str, str, str]:
    return f"{reduction.pct:.1f} %", f"{reduction.low_pct:.1f} %", f"{reduction.high_pct:.1f} %"


def _format_canary(proposal: Proposal) -> str:
    if not proposal.canary:
        return "No canary was run."
    equal, count = sum(line.equal for line in proposal.canary), len(proposal.canary)
    head = ("query", "results", "bytes on main", "bytes on the branch", "seconds on main", "seconds on the branch")
    listed = format_table((*head, "text without literals"), (_format_line(line) for line in _select_lines(proposal)))
    summary = f"{equal} of {count} queries returned the same result on main and on the branch."
    return f"{summary}\n\n{listed}{_format_more(count, 'queries')}"


def _select_lines(proposal: Proposal) -> list[CanaryLine]:
    """Return the queries to list: those that differ, then those that read most."""
    return sorted(proposal.canary, key=lambda line: (line.equal, -line.bytes_main))[:MAX_ROWS]


def _format_more(count: int, what: str) -> str:
    return f"\n\n{count - MAX_ROWS} more {what} are not listed." if count > MAX_ROWS else ""


def _format_line(line: CanaryLine) -> tuple[str, ...]:
    return (
        format_code(line.fingerprint),
        "equal" if line.equal else "**different**",
        format_bytes(line.bytes_main),
        format_bytes(line.bytes_branch),
        f"{line.seconds_main:.2f}",
        f"{line.seconds_branch:.2f}",
        format_code(truncate_text(line.text, MAX_TEXT)),
    )


def _format_cost(proposal: Proposal) -> str:
    pays = "never pays back" if proposal.payback_days is None else f"pays back in {proposal.payback_days:.1f} days"
    cost = f"{format_duration(proposal.cost_seconds)} and costs {format_dollars(proposal.cost_dollars)}"
    return f"The rewrite takes about {cost}; it {pays}."
