"""Output of commands that keep a table current from another one: results of runs, and files that were not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.cli.output import print_json, print_table, print_text
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.follower import FollowResult, FollowStatus

__all__ = ["show_results", "show_status"]


def show_results(results: Sequence[FollowResult], *, as_json: bool) -> None:
    """Print the results of a run, one for each table."""
    if as_json:
        print_json([result.as_document() for result in results])
        return
    for result in results:
        if not result.committed:
            print_text(f"{result.table}: {result.reason}")
            continue
        rows, partitions = format_count(result.rows, "row"), format_count(result.partitions, "partition")
        print_text(f"{result.table}: {rows} in {partitions} written in {format_duration(result.seconds)}")
        print_text(f"  {result.reason}")


def show_status(found: Sequence[FollowStatus], *, as_json: bool) -> None:
    """Print how many files each table has not seen."""
    if as_json:
        print_json([one.as_document() for one in found])
        return
    headers = ("table", "source", "files", "not read", "bytes not read")
    rows = [
        (one.table, one.source, f"{one.files:,}", f"{one.files_missing:,}", format_bytes(one.bytes_missing))
        for one in found
    ]
    print_table(headers, rows, right=(2, 3, 4))
