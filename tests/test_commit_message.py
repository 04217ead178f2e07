"""The commit-msg hook accepts messages that follow the rules and names each fault of the others."""

from __future__ import annotations

import doctest
import io
from typing import TYPE_CHECKING

import pytest
from tools import commit_message
from tools.commit_message import check_message, is_imperative, list_packages, main

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("ingest", "query", "receive")
BODY = "\n\nThe reason for the change."
GOOD = f"ingest: skip files of the lake itself{BODY}"


def test_the_examples_are_true() -> None:
    """The doctests of the module pass."""
    assert doctest.testmod(commit_message).failed == 0


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        f"receive, query: limit the work of one key{BODY}",
        f"docs: name the ports of the receiver{BODY}",
        f"query: use `EXPLAIN` for estimates{BODY}",
        f"{GOOD}\n\nSigned-off-by: A <a@example.com>\n# a comment of git",
        f"query: {'x' * 53}{BODY}",
    ],
)
def test_good_messages_have_no_faults(message: str) -> None:
    """Several prefixes, other folders, trailers, comments and exactly 60 characters are allowed."""
    assert check_message(message, PACKAGES) == []


@pytest.mark.parametrize(
    "message", ["Merge branch 'main'", 'Revert "query: cache manifests"', "fixup! query: cache manifests"]
)
def test_generated_messages_are_not_checked(message: str) -> None:
    """Git writes the subjects of merges, reverts and fixups itself."""
    assert check_message(message, PACKAGES) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (f"skip files of the lake{BODY}", "expected 'package: imperative verb …'"),
        (f"Ingest: skip files{BODY}", "expected 'package: imperative verb …'"),
        (f"ingest:skip files{BODY}", "expected 'package: imperative verb …'"),
        (f"wip: skip files{BODY}", "the prefix 'wip' is unknown, expected one of bench, build"),
        (f"query, wip: skip files{BODY}", "the prefix 'wip' is unknown"),
        (f"query: skipped files{BODY}", "begins with 'skipped'"),
        (f"query: skips files{BODY}", "begins with 'skips'"),
        (f"query: skipping files{BODY}", "begins with 'skipping'"),
        (f"query: Wrote files{BODY}", "begins with 'Wrote'"),
        (f"query: a plain pattern{BODY}", "begins with 'a'"),
        (f"query: {'x' * 54}{BODY}", "has 61 characters, expected at most 60"),
        ("query: skip files\nThe reason.", "the second line is 'The reason.', expected a blank line"),
        ("query: skip files", "there is no body"),
        ("query: skip files\n\n# a comment of git\n", "there is no body"),
        ("query: skip files\n\nSigned-off-by: A <a@example.com>", "there is no body"),
    ],
)
def test_each_fault_is_named(message: str, fault: str) -> None:
    """A message with one fault gets one line, with the value and what was expected."""
    (found,) = check_message(message, PACKAGES)
    assert fault in found


def test_all_faults_are_named_at_once() -> None:
    """An author corrects a message once, not once for each fault."""
    assert len(check_message(f"wip: added {'x' * 60}", PACKAGES)) == 4


def test_the_diff_of_a_verbose_commit_is_not_a_body() -> None:
    """Text below the scissors line of `git commit --verbose` does not count."""
    scissors = "# ------------------------ >8 ------------------------"
    (fault,) = check_message(f"query: skip files\n\n{scissors}\n# Do not modify\ndiff --git a b\n", PACKAGES)
    assert "there is no body" in fault


@pytest.mark.parametrize("word", ["need", "seed", "embed", "compress", "focus", "alias", "string", "Use", "put"])
def test_verbs_that_look_like_another_form_are_accepted(word: str) -> None:
    """An ending alone does not make a past tense or a third person."""
    assert is_imperative(word)


def test_packages_are_those_of_the_source() -> None:
    """Packages and modules are prefixes; caches, dunder modules and data files are not."""
    packages = list_packages()
    assert {"ingest", "query", "errors"} <= set(packages)
    assert not [name for name in packages if name.startswith(("_", ".")) or name == "py"]


def test_the_command_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The hook exits with 0 for a good message, and with 1 and the faults on standard error for a bad one."""
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(GOOD, encoding="utf-8")
    assert main([str(file)]) == 0
    file.write_text("update things", encoding="utf-8")
    assert main([str(file)]) == 1
    assert "commit message: the subject is 'update things'" in capsys.readouterr().err


def test_the_command_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI pipes the messages of a pull request into the same check."""
    monkeypatch.setattr("sys.stdin", io.StringIO(GOOD))
    assert main(["-"]) == 0
