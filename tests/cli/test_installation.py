"""`neve setup`, `neve completion` and `neve help`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from neve.cli.installation import SHELLS, TOPICS
from neve.lake.spark import jars
from tests.cli.runner import run

if TYPE_CHECKING:
    from collections.abc import Iterable


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str) -> None:
    """It asks `neve` for completions, and the shell, if it is there, can read it."""
    printed = run("completion", shell)
    assert (printed.code, printed.errors) == (0, "")
    assert f"_NEVE_COMPLETE={shell}_complete" in printed.text
    if program := which(shell):
        subprocess.run([program, "-n"], input=printed.text, text=True, check=True)


def test_commands_and_options_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the script asks for them."""
    monkeypatch.setenv("_NEVE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "neve comp")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run().text.split() == ["plain,compact", "plain,completion"]
    monkeypatch.setenv("COMP_WORDS", "neve query --ver")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert run().text.split() == ["plain,--vertical"]


@pytest.mark.parametrize("topic", TOPICS)
def test_topics_are_explained(topic: str) -> None:
    """Each in a few lines that fit a terminal."""
    page = run("help", topic)
    assert page.text.strip() == TOPICS[topic]
    assert max(map(len, page.text.splitlines())) <= 80


def test_help_of_commands() -> None:
    """The same page as --help; without words, all commands and topics; a wrong one is refused with the topics."""
    assert run("help", "compact", "plan").text == run("compact", "plan", "--help").text
    assert all(topic in run("help").text for topic in TOPICS)
    for words in (["nothing"], ["query", "nothing"]):
        wrong = run("help", *words)
        assert wrong.code == 2
        assert "Topics: configuration" in wrong.errors


def test_jars_are_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the configuration, or all; and the command says where they are."""
    asked: list[set[str]] = []

    def local_paths(wanted: Iterable[jars.Jar]) -> list[Path]:
        asked.append({jar.artifact for jar in wanted})
        return [Path("cache/jars") / artifact for artifact in asked[-1]]

    monkeypatch.setattr(jars, "local_paths", local_paths)
    told = run("setup")
    assert told.code == 0
    assert "2 jars in cache/jars" in told.text
    assert len(run("setup", "--all", "--json").json["jars"]) == len(jars.ALL)
    assert asked[0] == {"iceberg-spark-runtime-4.1_2.13", "sqlite-jdbc"}
