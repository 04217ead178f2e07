"""`neve ingest`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from neve.cli.output import emit, json_option, note, org_option, progress, say, size
from neve.cli.streams import kafka, raw, watch

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.ingest.files.result import IngestResult

SIGNALS = ("logs", "metrics", "traces")
FORMATS = ("otlp_proto", "otlp_json", "json_lines", "csv", "parquet")


@click.group()
def ingest() -> None:
    """Take telemetry in."""


@ingest.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--signal", type=click.Choice(SIGNALS), help="What the files hold.  [default: by name and content]")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="How they are written.  [default: by name and content]"
)
@org_option
@json_option
@click.pass_obj
def files(
    context: Context, paths: tuple[str, ...], signal: str | None, form: str | None, org: str | None, as_json: bool
) -> None:
    """Take in files: OTLP protobuf (.binpb, .pb), OTLP JSON (.json), JSON lines, CSV and Parquet, plain, .gz or .zst.

    PATH is a file, a folder, a glob or an s3:// address. Files are remembered by content: running the same command
    again adds nothing. Records that can't be accepted go to the table quarantine with their reason.

    \b
    Examples:
      neve ingest files telemetry/
      neve ingest files 's3://raw/otel/2026-11-15/'
      neve ingest files access.csv.gz --signal logs --org acme
    """
    from neve.app.wiring import build_documents, build_own_folders
    from neve.ingest.files.formats import Format
    from neve.ingest.files.job import FileRequest, ingest_files
    from neve.ingest.files.read import Wanted
    from neve.model.signals import Signal

    wanted = Wanted(Signal(signal) if signal else None, Format(form) if form else None)
    request = FileRequest(paths, context.organization(org), wanted)
    settings, documents = context.settings, build_documents(context.settings)
    own = build_own_folders(settings, context.lake)
    with closing(documents), progress(not as_json) as tell:
        result = ingest_files(context.lake, settings.ingest, request, tell, own=own, documents=documents)
    emit(result.to_json()) if as_json else show(result)
    if result.failed or result.lost:
        raise click.exceptions.Exit(1)


for command in (raw, kafka, watch):
    ingest.add_command(command)


def show(result: IngestResult) -> None:
    """The summary of a run."""
    if result.resumed:
        say(f"finished {len(result.resumed)} batch(es) that an earlier run had begun")
    say(f"files     {result.files} read, {len(result.skipped)} skipped")
    for reason, count in _counted([file.reason for file in result.skipped]):
        say(f"          - {count} skipped: {reason}")
    for file in result.lost:
        note(f"warning: nothing of {file.path} was taken in: {file.reason}")
    for batch in result.failed:
        note(f"warning: batch {batch.path} of an earlier run could not be finished: {batch.reason}")
    if result.ignored:
        say(f"          - {len(result.ignored)} ignored: not telemetry, for example {result.ignored[0]}")
    counts = ", ".join(f"{count:,} {signal}" for signal, count in sorted(result.records.items())) or "none"
    say(f"records   {counts}")
    total = sum(result.rejected.values())
    say(f"rejected  {total:,}" + (" (in the table quarantine)" if total else ""))
    for reason, count in sorted(result.rejected.items()):
        say(f"          - {count:,} {reason}")
    if result.duplicates:
        say(f"known     {sum(result.duplicates.values()):,} records were in the lake already and were left out")
    if result.duplicate_keys:
        say(f"          {result.duplicate_keys:,} duplicate attribute keys: the last value was kept")
    if result.pointless_metrics:
        say(f"          {result.pointless_metrics:,} metrics had no data points")
    packed = f" ({size(result.bytes_unpacked)} unpacked)" if result.bytes_unpacked != result.bytes_in else ""
    say(f"bytes     {size(result.bytes_in)} in{packed}, {size(result.bytes_out)} out in {result.data_files} files")
    say(f"seconds   {result.seconds:.1f}")


def _counted(reasons: list[str]) -> list[tuple[str, int]]:
    return [(reason, reasons.count(reason)) for reason in dict.fromkeys(reasons)]
