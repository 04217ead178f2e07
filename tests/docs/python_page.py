"""The page docs/python.md: its table of names, and the example of each with its output."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.markdown import ROOT, split_code

PAGE = ROOT / "docs" / "python.md"
ROW = re.compile(r"^\| \[`(\w+)`\]\(#(\w+)\) \| .+ \| (yes|no) \|$", re.MULTILINE)
SECTION = re.compile(r"^## `(\w+)`$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """The code of a section, what it prints (`None`: the page does not say), and whether it starts Spark."""

    name: str
    code: str
    output: str | None
    starts_spark: bool


def documented_names() -> tuple[str, ...]:
    """The names in the table, in order."""
    return tuple(name for name, _anchor, _spark in ROW.findall(PAGE.read_text(encoding="utf-8")))


def load_examples() -> tuple[Example, ...]:
    """One example for each section of the page."""
    text = PAGE.read_text(encoding="utf-8")
    starts_spark = {name: spark == "yes" for name, _anchor, spark in ROW.findall(text)}
    _intro, *parts = SECTION.split(text)
    return tuple(
        _read_section(name, body, starts_spark[name]) for name, body in zip(parts[::2], parts[1::2], strict=True)
    )


def _read_section(name: str, body: str, starts_spark: bool) -> Example:
    code, *outputs = split_code(body)[1]
    if code.language != "python" or [block.language for block in outputs] not in ([], ["text"]):
        raise ValueError(f"{PAGE.name}: the section {name} needs one python block, and one text block at most")
    output = "\n".join(outputs[0].lines) + "\n" if outputs else None
    return Example(name, "\n".join(code.lines), output, starts_spark)
