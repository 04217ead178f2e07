"""Markdown in small pieces."""

from collections.abc import Iterable, Sequence


def page(*blocks: str) -> str:
    """Blocks with an empty line between them, and one newline at the end; empty blocks are left out."""
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where there are no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(headers), _row(["---"] * len(headers)), *lines]) if lines else ""


def fence(text: str, language: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.strip()}\n```"


def code(text: object) -> str:
    """Text as code inside a line.

    >>> code("a")
    '`a`'
    """
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Texts as code, with commas between them."""
    return ", ".join(map(code, texts))


def _row(cells: Sequence[str]) -> str:
    """One line of a table; a bar inside a cell is escaped, also where it stands in code."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
