"""What the tests read out of Markdown: blocks of code, links, anchors, and the commands that are shown."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[2]
MADE_BY_RUNS = ("lake", "demo", "build", "dist", "spark-warehouse")

FENCE = re.compile(r"^ *(`{3,}|~{3,}) *([\w-]*)")
INLINE_CODE = re.compile(r"(`+)(?P<code>.+?)\1", re.DOTALL)
LINKS = (
    re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"),
    re.compile(r"^\[[^\]^]+\]:\s*(\S+)", re.MULTILINE),
    re.compile(r"(?:src|href)=\"([^\"]+)\""),
)
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
OWN_ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*:|//)")

SHELLS = ("", "sh", "bash", "shell", "console")
PROMPT = re.compile(r"^\s*\$ ")
SHOWS_NEVE = re.compile(r"(^|[|&;(]|\$\()\s*(\w+=\S*\s+)*([\w./~-]*/)?neve(\s|$)")
ASSIGNMENT = re.compile(r"^\w+=")
OPERATOR = re.compile(r"^[();<>|&]+$")
REDIRECTION = re.compile(r"^[<>]")


@dataclass(frozen=True)
class Block:
    """A block of code and the language that it says it is in."""

    language: str
    lines: tuple[str, ...]


def markdown_files() -> list[Path]:
    """Every Markdown file of the repository, without what tools and runs leave behind."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(path for path in found if not _foreign(path))


def _foreign(path: Path) -> bool:
    return path.parts[0] in MADE_BY_RUNS or any(part.startswith(".") or part == "node_modules" for part in path.parts)


def split_code(text: str) -> tuple[str, list[Block]]:
    """The text outside fenced code, and the blocks of fenced code."""
    prose: list[str] = []
    blocks: list[Block] = []
    lines: list[str] = []
    fence = language = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if not fence and mark:
            fence, language, lines = mark[1], mark[2], []
        elif fence and mark and mark[1].startswith(fence) and not mark[2]:
            blocks.append(Block(language, tuple(lines)))
            fence = ""
        else:
            (lines if fence else prose).append(line)
    return "\n".join(prose), blocks


def inline_code(text: str) -> list[str]:
    """The pieces of code inside prose."""
    return [match["code"] for match in INLINE_CODE.finditer(split_code(text)[0])]


def all_code(text: str) -> str:
    """Everything that is set as code."""
    return "\n".join([*inline_code(text), *(line for block in split_code(text)[1] for line in block.lines)])


def relative_links(text: str) -> list[str]:
    """The targets of links that do not leave the repository."""
    prose = INLINE_CODE.sub("", split_code(text)[0])
    return [target for links in LINKS for target in links.findall(prose) if not SCHEME.match(target)]


def anchors(text: str) -> set[str]:
    """What a link into the page can point to: its headings as GitHub names them, and anchors of its own."""
    prose, _blocks = split_code(text)
    seen: Counter[str] = Counter()
    found = set(OWN_ANCHOR.findall(prose))
    for heading in HEADING.findall(prose):
        slug = _slug(heading)
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def _slug(heading: str) -> str:
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def broken_link(page: Path, target: str) -> bool:
    """Whether a link of a page leads nowhere; a target that begins with a slash starts from the repository."""
    path, _, anchor = target.partition("#")
    here = page if not path else Path(path.lstrip("/")) if path.startswith("/") else page.parent / path
    file = ROOT / here
    if not file.exists():
        return True
    return bool(anchor) and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8"))


def neve_commands(block: Block) -> Iterator[list[str]]:
    """The arguments of every `neve` command in a block for a shell; in a console only lines with a prompt count."""
    if block.language not in SHELLS:
        return
    lines = list(block.lines)
    while lines:
        line = lines.pop(0)
        if block.language == "console" and not PROMPT.match(line):
            continue
        line = PROMPT.sub("", line)
        if SHOWS_NEVE.search(line):
            yield from _commands(_tokens(line, lines))


def _tokens(line: str, following: list[str]) -> list[str]:
    """The words of a command; lines that follow are taken while a quote is open or a backslash stands at the end."""
    while True:
        try:
            if not line.endswith("\\"):
                return list(_lexer(line))
        except ValueError:
            line += "\n"
        if not following:
            raise ValueError(f"the command does not end: {line}")
        line = line.removesuffix("\\") + following.pop(0)


def _lexer(line: str) -> shlex.shlex:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return lexer


def _commands(tokens: list[str]) -> Iterator[list[str]]:
    runs = [list(run) for operator, run in groupby(tokens, key=lambda token: bool(OPERATOR.match(token)))]
    before = ""
    for run in runs:
        words = run
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        if words and not REDIRECTION.match(before) and PurePath(words[0]).name == "neve":
            yield words[1:]
        before = run[-1]
