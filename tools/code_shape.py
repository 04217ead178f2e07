"""Measure the shape of the source tree: files, headers, modules with one importer, crowded folders, names.

python -m tools.code_shape              # this tree
python -m tools.code_shape OTHER/src    # another one, such as a worktree of an older commit
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

SMALL_LINES, CROWDED_FILES = 80, 20
IRREGULAR = frozenset(
    {
        *("begun", "bound", "built", "chosen", "done", "drawn", "found", "given", "gone", "held", "kept", "known"),
        *("laid", "led", "left", "lost", "made", "meant", "met", "put", "said", "seen", "sent", "shown", "stood"),
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


def count_importers(modules: list[Module]) -> Counter[str]:
    """How many other modules import each module."""
    known = {module.name for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports & known - {module.name}:
            importers[name].add(module.name)
    return Counter({name: len(found) for name, found in importers.items()})


def measure(root: Path) -> dict[str, float]:
    """The numbers of a tree."""
    modules = [read_module(path, root) for path in sorted(root.rglob("*.py"))]
    importers = count_importers(modules)
    sizes = sorted(module.lines for module in modules)
    folders = Counter(module.folder for module in modules if not module.name.endswith("__init__"))
    functions = [name for module in modules for name in module.functions]
    return {
        "files": len(modules),
        "lines": sum(sizes),
        "header lines": sum(module.header_lines for module in modules),
        "median lines of a file": sizes[len(sizes) // 2],
        "p95 lines of a file": sizes[len(sizes) * 95 // 100],
        "modules with one importer": sum(count == 1 for count in importers.values()),
        f"of these under {SMALL_LINES} lines": sum(
            importers[module.name] == 1 and module.lines < SMALL_LINES for module in modules
        ),
        f"folders over {CROWDED_FILES} files": sum(count > CROWDED_FILES for count in folders.values()),
        "functions": len(functions),
        "functions named by a participle": sum(map(is_participle, functions)),
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


def main() -> None:
    """Print the numbers of a tree."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "src"
    for name, number in measure(root).items():
        sys.stdout.write(f"{number:>10,}  {name}\n")


if __name__ == "__main__":
    main()
