"""`neve erase`: remove records by a condition from every copy that the lake holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, org_option, print_json, print_note, print_table, print_text, progress_bar
from neve.cli.security.audit import open_documents
from neve.errors import LakeError
from neve.text import format_count

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.erase.job import Erasure


@click.command(short_help="Erase records of an organization from the whole lake.")
@click.option("--where", default="", metavar="SQL", help="Condition on the columns of the tables, in DuckDB's SQL.")
@click.option(
    "--text", "texts", multiple=True, metavar="TEXT", help="Also rows with this text in any column; repeatable."
)
@click.option("--drop-refs", is_flag=True, help="Drop branches and tags that refer to earlier snapshots.")
@click.option("--dry-run", is_flag=True, help="Count the records, and change nothing.")
@click.option("--yes", is_flag=True, help="Erase without a question.")
@org_option
@json_option
@click.pass_obj
def erase(
    context: Context,
    where: str,
    texts: tuple[str, ...],
    drop_refs: bool,
    dry_run: bool,
    yes: bool,
    org: str | None,
    as_json: bool,
) -> None:
    """Erase records of an organization from tables, earlier snapshots, the raw zone, the search index and the state.

    Files with matching rows are written again without them, and earlier snapshots expire. This can't be undone. The
    command fails while a copy remains, and says which. Run it again then.

    \b
    Examples:
      neve erase --where "attributes['user.id'] = '4711-ada'" --dry-run
      neve erase --where "attributes['user.id'] = '4711-ada'" --org acme --yes
      neve erase --text ada@example.com --drop-refs --yes
    """
    from neve.app.erase import erase_records, search_records
    from neve.erase.condition import parse_condition

    condition, organization = parse_condition(where, texts), context.organization(org)
    with open_documents(context) as documents, progress_bar(not as_json) as progress:
        lake = (context.settings, context.lake, documents)
        if dry_run:
            result = search_records(*lake, condition, organization, progress)
        else:
            if not yes:
                click.confirm(f"erase matching records of {organization}? This can't be undone", abort=True, err=True)
            result = erase_records(*lake, condition, organization, progress, drop_refs=drop_refs)
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)
    if not dry_run and not result.is_proven:
        raise LakeError(
            f"{len(result.remaining)} copies remain", hint="resolve the reasons above, then run the same command again"
        )


def _show(result: Erasure) -> None:
    rows = [
        (
            one.table,
            one.how,
            f"{one.files:,}",
            f"{one.matched:,}",
            f"{result.old.get(one.table, 0):,}",
            f"{one.kept.rows:,}",
        )
        for one in result.tables
        if one.matched or result.old.get(one.table) or one.how == "not searched"
    ]
    if rows:
        headers = ("table", "searched by", "files", "matching rows", "in earlier snapshots", "rewritten rows that stay")
        print_table(headers, rows, right=(2, 3, 4, 5))
    done = "to erase" if result.is_dry_run else "erased"
    print_text(f"{done}: {format_count(result.matched_rows, 'row')} of {result.organization}")
    if result.is_dry_run:
        print_text(f"{result.documents:,} documents of the state store quote them")
        print_text(f"{result.segments:,} segments of the raw zone would be removed, after they are ingested")
        return
    expired, files = sum(one.snapshots for one in result.snapshots), sum(one.files for one in result.snapshots)
    print_text(
        f"{format_count(expired, 'snapshot')} expired, {format_count(files, 'file')} and "
        f"{format_count(result.segments, 'segment of the raw zone')} removed, "
        f"{result.documents:,} documents of the state store changed"
    )
    for reason in result.remaining:
        print_note(f"remains: {reason}")
    if result.is_proven:
        print_text("proof: a search of all tables and snapshots found no matching row")
