"""Text of `neve ingest files`: the summary of a run, and the preview of `--dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.cli.output import escape_controls, print_note, print_text
from neve.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.preview import FilePreview, PartPreview, Preview
    from neve.ingest.results import IngestResult

MOST_PATHS = 20
FAILED, IGNORED = 1, 3  # exit codes


def show_ingest(result: IngestResult) -> None:
    """Print the summary of a run."""
    _show_files(result)
    counts = ", ".join(f"{count:,} {signal}" for signal, count in sorted(result.records.items())) or "none"
    print_text(f"records   {counts}")
    total = sum(result.rejected.values())
    print_text(f"rejected  {total:,}" + (" (in the table quarantine)" if total else ""))
    for reason, count in sorted(result.rejected.items()):
        print_text(f"          - {count:,} {reason}")
    if result.duplicates:
        print_text(f"known     {format_count(sum(result.duplicates.values()), 'record')} skipped: in the lake already")
    if result.duplicate_keys:
        print_text(f"          {result.duplicate_keys:,} duplicate attribute keys: the types have the earlier values")
    if result.pointless_metrics:
        print_text(f"          {result.pointless_metrics:,} metrics had no data points")
    packed = f" ({format_bytes(result.bytes_unpacked)} unpacked)" if result.bytes_unpacked != result.bytes_in else ""
    print_text(
        f"bytes     {format_bytes(result.bytes_in)} in{packed}, "
        f"{format_bytes(result.bytes_out)} out in {format_count(result.data_files, 'file')}"
    )
    print_text(f"seconds   {result.seconds:.1f}")


def _show_files(result: IngestResult) -> None:
    if result.resumed:
        print_text(f"finished {len(result.resumed)} batch(es) of an interrupted run")
    if result.is_empty:
        print_text(f"nothing was ingested: {_explain_empty(result)}")
    print_text(f"files     {result.files} read, {len(result.skipped)} skipped")
    for form, count in sorted(result.formats.items()):
        print_text(f"          - {count} read as {form}")
    for reason, count in _count_reasons([file.reason for file in result.skipped]):
        print_text(f"          - {count} skipped: {reason}")
    for file in result.lost:
        print_note(escape_controls(f"warning: nothing was ingested from {file.path}: {file.reason}"))
    for batch in result.failed:
        print_note(f"warning: batch {batch.path} of an interrupted run could not be finished: {batch.reason}")
    show_ignored(result.ignored, len(result.own))


def show_ignored(ignored: Sequence[str], own: int) -> None:
    """Print the files that have no known format."""
    if own:
        print_text(f"          - {own} skipped: files of the lake itself")
    if not ignored:
        return
    print_text(f"          - {len(ignored)} ignored: unknown format")
    for path in ignored[:MOST_PATHS]:
        print_note(escape_controls(f"warning: {path} was ignored: unknown format"))
    if len(ignored) > MOST_PATHS:
        print_note(f"warning: {len(ignored) - MOST_PATHS} more files were ignored; --json lists all")


def find_exit_code(*, failed: bool, ignored: bool) -> int:
    """Return the exit code of a run: 1 if something failed, 3 if files were ignored, else 0."""
    return FAILED if failed else IGNORED if ignored else 0


def _explain_empty(result: IngestResult) -> str:
    if result.skipped:
        count = len(result.skipped)
        return "the file was ingested before" if count == 1 else f"all {count:,} files were ingested before"
    if result.lost:
        return "no file could be read"
    return "no file has a known format" if result.ignored else "no file was found"


def _count_reasons(reasons: list[str]) -> list[tuple[str, int]]:
    return [(reason, reasons.count(reason)) for reason in dict.fromkeys(reasons)]


def show_preview(preview: Preview) -> None:
    """Print how files would be read."""
    if not preview.files:
        print_text("nothing would be ingested: no file of a known format was found")
    for file in preview.files:
        _show_file(file)
    if preview.unread:
        print_text(f"and {preview.unread} more files, which were not read for this preview")
    show_ignored(preview.ignored, len(preview.own))


def _show_file(file: FilePreview) -> None:
    _print(file.path)
    if file.error:
        _print(f"  can't be ingested: {file.error}")
        return
    _print(f"  format      {file.format}" + (" (detected; --format names another)" if file.is_detected else ""))
    for part in file.parts:
        _show_part(part)


def _show_part(part: PartPreview) -> None:
    _print(f"  signal      {part.signal}" + (f", fields of {part.schema}" if part.schema else ""))
    for meaning, names in part.fields.items():
        _print(f"  {meaning:<11} {'is left out' if meaning == 'repeated' else 'from'} {', '.join(names)}")
    if part.attributes:
        _print(f"  attributes  {', '.join(part.attributes)}")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(part.rejected.items()))
    _print(f"  records     {part.records:,}" + (f", rejected: {reasons}" if reasons else ""))
    for rejection in part.first_rejections:
        _print(f"    rejected  {rejection}")
    for row in part.rows:
        _print("    " + ", ".join(f"{name}={_format_value(value)}" for name, value in row.items()))


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={_format_value(entry)}" for key, entry in value.items()) + "}"
    return repr(value) if isinstance(value, str) else str(value)


def _print(text: str) -> None:
    print_text(escape_controls(text))
