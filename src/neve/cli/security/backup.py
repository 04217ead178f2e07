"""`neve backup` and `neve restore`: the catalog and the state store of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_note, print_text
from neve.errors import LakeError
from neve.text import format_count

if TYPE_CHECKING:
    from neve.backup.job import Restore
    from neve.cli.context import Context


@click.command()
@click.argument("destination")
@click.option("--force", is_flag=True, help="Replace a backup that is there.")
@json_option
@click.pass_obj
def backup(context: Context, destination: str, force: bool, as_json: bool) -> None:
    """Back up the catalog and the state store.

    The destination is a folder or an s3:// prefix. The lake may be in use. Data files stay where they are. The backup
    has the location and the metadata file of each table, API keys without their secrets, and the documents of the
    state store.

    \b
    Examples:
      neve backup /srv/backups/2026-01-31
      neve backup s3://backups/lake/2026-01-31 --json
    """
    from neve.app.backup import back_up

    made = back_up(context.settings, context.lake, destination, force=force)
    if as_json:
        print_json(made.to_json())
        return
    counts = (format_count(made.tables, "table"), format_count(made.documents, "document"))
    print_text(f"{', '.join(counts)} and {format_count(made.keys, 'key')} are in {destination}")


@click.command()
@click.argument("source")
@click.option("--exact", is_flag=True, help="Restore tables as they were, instead of their newest metadata files.")
@click.option("--force", is_flag=True, help="Replace tables, documents and keys that exist.")
@click.option("--dry-run", is_flag=True, help="Check the backup and the files of the tables, and change nothing.")
@json_option
@click.pass_obj
def restore(context: Context, source: str, exact: bool, force: bool, dry_run: bool, as_json: bool) -> None:
    """Restore the catalog and the state store from a backup. Stop `neve serve` and other writers first.

    A table becomes that of its newest metadata file in the warehouse, so that commits after the backup are kept. The
    command fails if a file is missing that a table needs, and names it.

    \b
    Examples:
      neve restore /srv/backups/2026-01-31 --dry-run
      neve restore /srv/backups/2026-01-31
      neve restore /srv/backups/2026-01-31 --exact --force
    """
    from neve.app.backup import restore as restore_backup

    result = restore_backup(context.settings, context.lake, source, exact=exact, force=force, dry_run=dry_run)
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)
    if not result.is_complete:
        missing = sum(len(table.missing) for table in result.tables)
        raise LakeError(
            f"{format_count(missing, 'file')} and {format_count(len(result.gaps), 'range of segments')} are missing",
            hint="restore without --exact, or use a later backup",
        )


def _show(result: Restore) -> None:
    manifest = result.manifest
    print_text(f"backup of {manifest.created_at} by release {manifest.release}")
    newer = sum(table.is_newer for table in result.tables)
    would = "would be" if result.is_dry_run else "are"
    print_text(
        f"{format_count(len(result.tables), 'table')} {would} restored, {newer} of them with commits after the backup; "
        f"{format_count(result.documents, 'document')}, {format_count(result.keys, 'key')}"
    )
    for table in result.tables:
        for path in table.missing:
            print_note(f"missing: {table.table} needs {path}")
    for gap in result.gaps:
        print_note(f"missing: {gap}")
