"""Log files of 16 systems, with the contents that loghub's own parsers found in them."""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from neve.errors import UnknownLines
from neve.ingest.files.formats import Format
from tests.outside.files import read, rows

LINES = 2000
# How many messages are equal to loghub's. The others differ by a part that Neve extracts, or leaves in the message.
KNOWN = {
    "Hadoop": (Format.LOGBACK, LINES),
    "Spark": (Format.LOGBACK, LINES),
    "Zookeeper": (Format.LOGBACK, LINES),
    "Windows": (Format.LOGBACK, 0),  # the component stays in the message
    "OpenSSH": (Format.SYSLOG_3164, LINES),
    "Linux": (Format.SYSLOG_3164, 1990),
    "Mac": (Format.SYSLOG_3164, 1850),  # names of services with spaces
    "Apache": (Format.APACHE_ERROR, 1960),  # the client is an attribute
}
UNKNOWN = ("Android", "BGL", "HDFS", "HPC", "HealthApp", "OpenStack", "Proxifier", "Thunderbird")


@pytest.mark.parametrize("name", KNOWN)
def test_log_files_of_known_formats(outside: Callable[[str], Path], name: str) -> None:
    """The format is detected, and every line is a record with a time."""
    path = outside(f"loghub/{name}/{name}_2k.log")
    form, least = KNOWN[name]
    found = read(path)
    assert (found.format, found.rejected) == (form, ())
    table = rows(found)
    assert (len(table), sum(1 for row in table if row["time_unix_nano"])) == (LINES, LINES)
    with path.with_name(path.name + "_structured.csv").open(encoding="utf-8") as file:
        wanted = Counter(row["Content"].strip() for row in csv.DictReader(file))
    assert sum((Counter(row["message"].strip() for row in table) & wanted).values()) >= least


@pytest.mark.parametrize("name", UNKNOWN)
def test_log_files_of_unknown_formats(outside: Callable[[str], Path], name: str) -> None:
    """They are refused, not guessed."""
    with pytest.raises(UnknownLines, match="no known log format"):
        read(outside(f"loghub/{name}/{name}_2k.log"))
