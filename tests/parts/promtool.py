"""promtool, which runs the unit tests of rules: the oracle for `neve rules test`."""

from pathlib import Path

from tests.parts import golang
from tests.parts.cache import place

NAME = "promtool"
VERSION = "3.15.0"
MODULE = "github.com/prometheus/prometheus"
MODULE_VERSION = "v0.315.0"
REPLACEMENT = "cloud.google.com/go => cloud.google.com/go v0.123.0"  # the one in Prometheus' own go.mod


def program() -> Path:
    """Return the place of the program in the cache."""
    return place(NAME, VERSION) / NAME


def make(into: Path) -> None:
    """Build the program."""
    build_command(NAME, into)


def build_command(name: str, into: Path) -> None:
    """Build a command of Prometheus, without the discovery of targets, which is most of the code.

    A module of our own requires Prometheus', which has a replacement and can't be installed.
    """
    work = into.parent
    (work / "go.mod").write_text(
        f"module neve.test/{name}\n\ngo 1.26\n\nrequire {MODULE} {MODULE_VERSION}\n\nreplace {REPLACEMENT}\n"
    )
    golang.build(f"{MODULE}/cmd/{name}", into / name, work, "remove_all_sd")
