"""`neve audit`: show who changed what, when and from where."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, print_json, print_table, print_text
from neve.cli.time_options import SinceParam

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.cli.context import Context
    from neve.state.documents import Documents


@click.command(short_help="Show changes of keys, policies and jobs, and refused logins.")
@click.option("--org", metavar="NAME", help="Only entries of this organization.  [default: all, and the lake itself]")
@click.option("--action", default="", metavar="NAME", help="Only actions that begin so, such as key or job.start.")
@click.option("--since", type=SinceParam(), metavar="WHEN", help="Only entries since then: 7d, 12h or a time.")
@click.option("--where", default="", metavar="SQL", help="Condition on the columns of the table audit.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Newest entries.")
@json_option
@click.pass_obj
def audit(
    context: Context, org: str | None, action: str, since: datetime | None, where: str, limit: int, as_json: bool
) -> None:
    """Show the audit log, newest first: changes of keys, policies, jobs and layouts, erasures, refused logins.

    Entries of all organizations are shown. An organization reads its own with SQL from the table audit.

    \b
    Examples:
      neve audit --since 7d
      neve audit --action login.refuse
      neve audit --org acme --action key
      neve audit --where "actor LIKE 'key %' AND details['reason'] <> ''"
    """
    from neve.app.audit import AuditFilter, read_entries

    wanted = AuditFilter(context.organization(org) if org else "", action, since, where, limit)
    with open_documents(context) as documents:
        found = read_entries(context.lake, documents, wanted)
    if as_json:
        print_json([{**row, "timestamp": row["timestamp"].isoformat()} for row in found])
        return
    if not found:
        print_text("there are no matching entries")
        return
    headers = ("time (UTC)", "action", "who", "from", "subject", "organization", "times", "details")
    print_table(headers, [_row(entry) for entry in found], right=(6,))


@contextmanager
def open_documents(context: Context) -> Iterator[Documents]:
    """Open the documents of the state store."""
    from neve.app.wiring import build_documents

    documents = build_documents(context.settings)
    try:
        yield documents
    finally:
        documents.close()


def record_change(context: Context, action: str, subject: str, organization: str, **facts: object) -> None:
    """Record a change that a command made."""
    from neve.state.audit import record_command

    with open_documents(context) as documents:
        record_command(documents, action, subject, organization, **facts)


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    details = ", ".join(f"{name}: {value}" for name, value in entry["details"].items())
    named = (entry["action"], entry["actor"], entry["origin"], entry["subject"], entry["organization_id"])
    return (f"{entry['timestamp']:%Y-%m-%d %H:%M:%S}", *named, f"{entry['occurrences']:,}", details)
