"""Check a commit message: `python -m tools.commit_message FILE`, or `-` for standard input.

A message has a subject of at most 60 characters, `package: imperative verb …`, a blank line, and a body that gives the
reason for the change. The check for the imperative looks at the first verb only and knows no dictionary: it rejects the
forms that English marks (added, adds, adding) and accepts everything else.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ROOT = Path(__file__).parents[1]
MAX_SUBJECT_CHARACTERS = 60
# Prefixes that are not packages: folders of the repository, and changes to CI, dependencies and packaging.
OTHER_PREFIXES = ("bench", "build", "ci", "deploy", "docs", "page", "tests", "tools")
# Git writes these subjects itself; `fixup!` and its kin disappear in a rebase.
GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")

SUBJECT = re.compile(r"(?P<prefixes>[a-z0-9_]+(?:, [a-z0-9_]+)*): (?P<summary>\S.*)")
SCISSORS = re.compile(r"^# -+ >8 -+$.*", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^#.*\n?", re.MULTILINE)
TRAILER = re.compile(r"[A-Z][A-Za-z-]*: \S.*")

# Articles and irregular forms: none of them is an imperative.
OTHER_FORMS = re.compile(
    r"an?|the|agreed|am|are|began|broke|built|came|chose|did|does|done|drew|freed|gave|gone|got|grew|guaranteed|had|has|"
    r"held|is|kept|knew|lost|made|meant|paid|ran|said|sent|shown|stood|taken|told|took|was|went|were|written|wrote"
)
# Imperatives that look like another form: need and speed, pass, focus, alias, and the words of the second line.
IMPERATIVE_FORMS = re.compile(
    r".*(eed|ss|us|ias)|"
    r"bring|cling|embed|fling|ping|ring|shed|shred|sing|sling|spring|string|swing|wed"
)


def check_message(message: str, packages: Collection[str]) -> list[str]:
    r"""List the faults of a commit message; empty for a good one, and for those that git writes itself.

    >>> check_message("query: cache manifests by path\n\nEach plan read them again.", ["query"])
    []
    >>> for fault in check_message("query: cached manifests", ["query"]):
    ...     print(fault)
    the subject begins with 'cached', expected the imperative, such as 'add' or 'reject'
    there is no body, expected a blank line and the reason for the change
    """
    subject, *rest = strip_comments(message).split("\n")
    if subject.startswith(GENERATED):
        return []
    return [*_check_subject(subject, packages), *_check_body(rest)]


def strip_comments(message: str) -> str:
    r"""Remove what git leaves out of a message: comments, and the diff of `git commit --verbose`.

    >>> strip_comments("docs: name the port\n# Please enter the commit message\n")
    'docs: name the port'
    """
    return COMMENT.sub("", SCISSORS.sub("", message)).strip()


def is_imperative(word: str) -> bool:
    """Tell whether a word may be a verb in the imperative.

    >>> [is_imperative(word) for word in ("add", "pass", "need", "bring", "reject")]
    [True, True, True, True, True]
    >>> [is_imperative(word) for word in ("added", "adds", "adding", "wrote", "the")]
    [False, False, False, False, False]
    """
    word = word.lower()
    if OTHER_FORMS.fullmatch(word):
        return False
    return bool(IMPERATIVE_FORMS.fullmatch(word)) or not word.endswith(("ed", "s", "ing"))


def list_packages(root: Path = ROOT) -> list[str]:
    """List the packages and modules of `src/neve`: the prefixes that a subject may have, beside `OTHER_PREFIXES`."""
    found = (root / "src" / "neve").iterdir()
    return sorted(path.stem for path in found if not path.name.startswith(("_", ".")) and path.suffix in {"", ".py"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a message and print its faults to standard error; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.commit_message", description="Check a commit message.")
    parser.add_argument("file", help="file with the message, - for standard input")
    file = parser.parse_args(arguments).file
    message = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    faults = check_message(message, list_packages())
    for fault in faults:
        sys.stderr.write(f"commit message: {fault}\n")
    if faults:
        sys.stderr.write("hint: CONTRIBUTING.md, section Commits, has the rules and an example\n")
    return 1 if faults else 0


def _check_subject(subject: str, packages: Collection[str]) -> list[str]:
    faults = []
    if len(subject) > MAX_SUBJECT_CHARACTERS:
        faults.append(f"the subject has {len(subject)} characters, expected at most {MAX_SUBJECT_CHARACTERS}")
    match = SUBJECT.fullmatch(subject)
    if not match:
        return [*faults, f"the subject is {subject!r}, expected 'package: imperative verb …'"]
    known = sorted({*packages, *OTHER_PREFIXES})
    faults += [
        f"the prefix {prefix!r} is unknown, expected one of {', '.join(known)}"
        for prefix in match["prefixes"].split(", ")
        if prefix not in known
    ]
    verb = re.split(r"\W", match["summary"], maxsplit=1)[0]
    if not is_imperative(verb):
        faults.append(f"the subject begins with {verb!r}, expected the imperative, such as 'add' or 'reject'")
    return faults


def _check_body(rest: Sequence[str]) -> list[str]:
    if rest and rest[0].strip():
        return [f"the second line is {rest[0]!r}, expected a blank line"]
    if not any(line.strip() and not TRAILER.fullmatch(line) for line in rest):
        return ["there is no body, expected a blank line and the reason for the change"]
    return []


if __name__ == "__main__":
    sys.exit(main())
