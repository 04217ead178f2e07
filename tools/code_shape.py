"""Measure the shape of the source tree: files, headers, modules with one importer, crowded folders, names.

python -m tools.code_shape              # this tree
python -m tools.code_shape OTHER/src    # another one, such as a worktree of an older commit
python -m tools.code_shape --names      # with the names behind the numbers that should be small
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

SMALL_LINES, LARGE_LINES, CROWDED_FILES = 80, 400, 20
IRREGULAR = frozenset(
    {
        *("begun", "bound", "built", "chosen", "done", "drawn", "found", "given", "gone", "held", "kept", "known"),
        *("laid", "led", "left", "lost", "made", "meant", "met", "said", "seen", "sent", "shown", "stood"),
        *("taken", "told", "written"),
    }
)
REGULAR = re.compile(r"[a-z]{2,}[^e]ed$")
NO_PARTICIPLES = frozenset(("embed", "exceed", "feed", "indeed", "need", "proceed", "seed", "shed", "speed"))


@dataclass(frozen=True)
class Module:
    """One source file, parsed."""

    name: str
    folder: str
    lines: int
    header_lines: int
    functions: tuple[str, ...]
    imports: frozenset[str]


def is_participle(name: str) -> bool:
    """Whether a function is named by a past participle alone.

    >>> [is_participle(name) for name in ("told", "_sorted", "sort", "read_file", "need", "kept_rows")]
    [True, True, False, False, False, False]
    """
    word = name.strip("_")
    return word in IRREGULAR or (bool(REGULAR.fullmatch(word)) and word not in NO_PARTICIPLES)


def read_module(path: Path, root: Path) -> Module:
    """Parse a file; its header is its docstring, its imports and its `TYPE_CHECKING` block."""
    text = path.read_text()
    tree = ast.parse(text)
    header = sum(_length(node) for place, node in enumerate(tree.body) if _is_header(place, node))
    nodes = list(ast.walk(tree))
    functions = tuple(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    return Module(name, str(path.parent), text.count("\n"), header, functions, frozenset(_imports(nodes)))


def read_tree(root: Path) -> list[Module]:
    """Parse all files of a tree."""
    return [read_module(path, root) for path in sorted(root.rglob("*.py"))]


def find_importers(modules: list[Module]) -> dict[str, set[str]]:
    """Return the modules that import each module."""
    known = {module.name for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports & known - {module.name}:
            importers[name].add(module.name)
    return importers


def measure(modules: list[Module]) -> dict[str, int]:
    """Return the numbers of a tree."""
    sizes = sorted(module.lines for module in modules)
    return {
        "files": len(modules),
        "lines": sum(sizes),
        "header lines": sum(module.header_lines for module in modules),
        "median lines of a file": sizes[len(sizes) // 2],
        "p95 lines of a file": sizes[len(sizes) * 95 // 100],
        "modules with one importer": sum(len(found) == 1 for found in find_importers(modules).values()),
        "functions": sum(len(module.functions) for module in modules),
        **{kind: len(names) for kind, names in find_offenders(modules).items()},
    }


def find_offenders(modules: list[Module]) -> dict[str, list[str]]:
    """Return names by kind: what breaks a rule of `docs/writing.md` or of the layout of the tree."""
    importers = find_importers(modules)
    folders = Counter(module.folder for module in modules if not module.name.endswith("__init__"))
    return {
        f"modules under {SMALL_LINES} lines with one importer": [
            f"{module.name} ({module.lines} lines), imported by {importer}"
            for module in modules
            if module.lines < SMALL_LINES and len(importers[module.name]) == 1
            for importer in importers[module.name]
        ],
        f"files over {LARGE_LINES} lines": [
            f"{module.name} ({module.lines} lines)" for module in modules if module.lines > LARGE_LINES
        ],
        f"folders over {CROWDED_FILES} files": [
            f"{folder} ({count} files)" for folder, count in folders.items() if count > CROWDED_FILES
        ],
        "functions named by a participle": [
            f"{module.name}: {name}" for module in modules for name in module.functions if is_participle(name)
        ],
    }


def _is_header(place: int, node: ast.stmt) -> bool:
    is_docstring = place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_typing = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return is_docstring or is_typing or isinstance(node, ast.Import | ast.ImportFrom)


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(nodes: list[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the numbers of a tree, and the names behind them if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.code_shape", description="Measure the shape of a source tree."
    )
    default = Path(__file__).parents[1] / "src"
    parser.add_argument("root", nargs="?", type=Path, default=default, help="folder of the sources (default: src)")
    parser.add_argument("--names", action="store_true", help="list the modules, files, folders and functions to change")
    options = parser.parse_args(arguments)
    modules = read_tree(options.root)
    if not modules:
        parser.error(f"root is '{options.root}', expected a folder with Python files")
    for name, number in measure(modules).items():
        sys.stdout.write(f"{number:>10,}  {name}\n")
    if options.names:
        for kind, names in find_offenders(modules).items():
            sys.stdout.write("".join((f"\n{kind}:\n", *(f"  {name}\n" for name in names or ["none"]))))


if __name__ == "__main__":
    main()
