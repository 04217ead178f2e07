"""Files put in place: in an order that readers can live with, and killed at every step without harm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pytest

from neve.errors import InputError
from neve.reservoir.otap.job import Publisher
from neve.reservoir.otap.ledger import Ledger, SampledWindow
from neve.reservoir.otap.root_files import RootFile
from neve.reservoir.windows import Window

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = Window(0, 60)
OLD = ("/logs/_part_id=p/old", "/log_attrs/_part_id=p/old", "/_neve/decisions/logs/old", "/logs/_part_id=q/stays")
NEW = ("/logs/_part_id=p/new", "/log_attrs/_part_id=p/new", "/_neve/decisions/logs/new", "/logs/_part_id=q/stays")


class Killed(BaseException):
    """Raised instead of doing a step."""


def ledger_of(folder: Path, filesystem: Any = None) -> Ledger:
    """The ledger of a target folder."""
    return Ledger(filesystem or pafs.LocalFileSystem(), str(folder), "logs")


def sampled(outputs: tuple[str, ...], generation: int) -> SampledWindow:
    """A window that was sampled into these files."""
    files = (("/in/a.parquet", 10, 20),)
    return SampledWindow(0, 60, "policy", "10 by service.name", ("service.name",), files, outputs, generation, 5, 3)


def staged(folder: Path, outputs: tuple[str, ...], text: str) -> None:
    """What tasks leave in the staging folder."""
    for path in outputs:
        place = folder / "_neve" / "staging" / f"logs-{WINDOW}" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def seen(folder: Path) -> dict[str, str]:
    """Every file of the target and what it holds."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


class Watched:
    """A local file system that tells what is done to it, and dies before a step."""

    def __init__(self, dies_at: int = 1000) -> None:
        self.inner = pafs.LocalFileSystem()
        self.steps: list[str] = []
        self.dies_at = dies_at

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in ("move", "delete_file", "delete_dir"):
            return method

        def step(*paths: str) -> None:
            if len(self.steps) == self.dies_at:
                raise Killed(name)
            self.steps.append(f"{name} {paths[-1]}")
            method(*paths)

        return step


def publish(folder: Path, outputs: tuple[str, ...], generation: int, filesystem: Any = None) -> None:
    """Put a window's files in the place of those that the ledger names."""
    ledger = ledger_of(folder, filesystem)
    staged(folder, outputs, f"generation {generation}")
    Publisher(ledger).publish(WINDOW, sampled(outputs, generation), ledger.read_windows().get(0))


def test_children_come_before_their_parents_and_go_after_them(tmp_path: Path) -> None:
    """So that no reader finds a record without its attributes; the ledger tells before and after."""
    publish(tmp_path, OLD, 0)
    watched = Watched()
    publish(tmp_path, NEW, 1, watched)
    document = "move _neve/reservoir/logs/windows/19700101T000000Z.json"
    assert [step.replace(f"{tmp_path}/", "") for step in watched.steps] == [
        document,
        "move log_attrs/_part_id=p/new",
        "move _neve/decisions/logs/new",
        "delete_file logs/_part_id=p/old",
        "move logs/_part_id=p/new",
        "move logs/_part_id=q/stays",
        "delete_file log_attrs/_part_id=p/old",
        "delete_file _neve/decisions/logs/old",
        document,
        "delete_dir _neve/staging/logs-19700101T000000Z",
    ]


@pytest.mark.parametrize("step", range(10))
def test_killed_at_any_step_and_run_again(tmp_path: Path, step: int) -> None:
    """The folder is that of a run that nobody killed, and nothing of the files before is left."""
    for name in ("whole", "killed"):
        publish(tmp_path / name, OLD, 0)
    publish(tmp_path / "whole", NEW, 1)
    with pytest.raises(Killed):
        publish(tmp_path / "killed", NEW, 1, Watched(step))
    found = ledger_of(tmp_path / "killed").read_windows()[0]
    assert found.done is (step in (0, 9))
    if step < 9:
        publish(tmp_path / "killed", NEW, 1)
    left = {name for name in seen(tmp_path / "killed") if "/staging/" in name or name.endswith(".new")}
    assert left == set()
    assert seen(tmp_path / "killed") == seen(tmp_path / "whole")


def test_a_run_that_died_is_done_again_from_other_files(tmp_path: Path) -> None:
    """Files that came meanwhile: what the dead run put in place and what it was to remove both go."""
    publish(tmp_path / "one", OLD, 0)
    with pytest.raises(Killed):
        publish(tmp_path / "one", NEW, 1, Watched(5))
    later = ("/logs/_part_id=r/late", "/log_attrs/_part_id=r/late")
    publish(tmp_path / "one", later, 1)
    tables = {name for name in seen(tmp_path / "one") if not name.startswith("_neve/reservoir")}
    assert tables == {path.lstrip("/") for path in later}


def test_the_ledger_gives_back_what_was_written(tmp_path: Path) -> None:
    """Windows by their start; a query alone knows what its groups are told by."""
    ledger = ledger_of(tmp_path)
    assert (ledger.read_windows(), ledger.known_files(60)) == ({}, {})
    one = sampled(OLD, 3)
    ledger.write(WINDOW, one)
    assert ledger.read_windows() == {0: one}
    ledger.write(WINDOW, one.mark_done())
    assert ledger.read_windows()[0].done
    unknown = SampledWindow(**{**vars(one), "by": None})
    ledger.write(WINDOW, unknown)
    assert ledger.read_windows() == {0: unknown}


def test_files_are_known_for_windows_of_one_length(tmp_path: Path) -> None:
    """Looked into for other windows, they say nothing of these."""
    ledger = ledger_of(tmp_path)
    files = [
        RootFile("/in/a.parquet", "p", 10, 20, ((0, 5), (60, 7)), 2, (0, 11), None),
        RootFile("/in/b.parquet", "", 10, 20, (), 0, None, 4),
    ]
    ledger.remember_files(files, 60)
    assert ledger.known_files(60) == {file.identity: file for file in files}
    assert ledger.known_files(300) == {}


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), (json.dumps({"version": 7}), "has version 7, expected 1")]
)
def test_a_ledger_that_cannot_be_read_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """By name, with what to do."""
    folder = tmp_path / "_neve" / "reservoir" / "logs" / "windows"
    folder.mkdir(parents=True)
    (folder / "19700101T000000Z.json").write_text(text)
    with pytest.raises(InputError, match=words):
        ledger_of(tmp_path).read_windows()
