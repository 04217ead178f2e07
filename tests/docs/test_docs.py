"""The documentation says what the code says, and its links and commands lead somewhere."""

import itertools
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest
import yaml
from docs.generate import FOLDER, main, pages, stale, write
from pydantic import BaseModel, SecretStr

from neve import __version__
from neve.app.configuration.given_values import NOT_KEYS
from neve.app.settings import Settings, load_settings
from neve.cli.main import neve
from neve.model.tables import TABLES
from tests.docs.markdown import (
    ROOT,
    Block,
    all_code,
    anchors,
    broken_link,
    inline_code,
    markdown_files,
    neve_commands,
    relative_links,
    split_code,
)

FILES = markdown_files()
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def read(path: Path) -> str:
    """The text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def sections_of(name: str) -> dict[str, str]:
    """What a generated page says below each heading of the second level."""
    parts = re.split(r"^## (.+)$", pages()[name], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands(command: click.Command, path: str = "neve") -> Iterator[tuple[str, click.Command]]:
    """Every command of the tree with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}")


def keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every key of the configuration, with whether it is a secret."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, (*path, name))
        else:
            yield (*path, name), kind is SecretStr


def parse(arguments: list[str]) -> None:
    """Hold a command line against the click tree; raises `click.UsageError` where it does not fit."""
    command: click.Command = neve
    context = click.Context(neve, info_name="neve", help_option_names=["-h", "--help"])
    while isinstance(command, click.Group):
        _given, arguments, _order = command.make_parser(context).parse_args(arguments)
        if not arguments:
            return
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    with suppress(click.exceptions.Exit):
        command.make_context(command.name, arguments, parent=context.parent)


@pytest.mark.slow
def test_no_generated_page_is_stale() -> None:
    """The pages in the repository are what the code makes of them; `make docs` writes them anew."""
    assert stale() == []


def test_the_check_names_the_stale_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` writes nothing, exits with 1 and says which page is behind."""
    write(tmp_path)
    assert stale(tmp_path) == []
    (tmp_path / "tables.md").write_text("old")
    assert stale(tmp_path) == ["tables.md"]
    monkeypatch.setattr("docs.generate.stale", lambda: ["tables.md"])
    assert main(["--check"]) == 1
    assert "docs/tables.md" in capsys.readouterr().err


def test_every_command_is_documented() -> None:
    """Each command has a section with its arguments, options, choices and the first line of its help."""
    sections = sections_of("cli.md")
    missing = {}
    for path, command in commands(neve):
        text = sections.get(f"`{path}`", "")
        missing[path] = [expected for expected in documented(command) if expected not in text]
    assert {path: absent for path, absent in missing.items() if absent} == {}
    assert len(missing) > 50


def documented(command: click.Command) -> Iterator[str]:
    """What the section of a command contains."""
    yield (command.help or "").strip().splitlines()[0]
    for param in command.params:
        if isinstance(param, click.Option) and param.hidden:
            continue
        for name in param.opts if isinstance(param, click.Option) else [param.human_readable_name]:
            yield f"`{name}`"
        if isinstance(param.type, click.Choice):
            yield from (f"`{choice}`" for choice in param.type.choices)


def test_every_setting_is_documented() -> None:
    """Each key stands once in its section with its variable, and a secret shows no default."""
    sections = sections_of("configuration.md")
    wrong = {}
    for path, secret in keys(Settings):
        title = f"`{'.'.join(path[:-1])}`" if path[1:] else "Top level"
        rows = [line for line in sections.get(title, "").splitlines() if f"`{'.'.join(path)}`" in line]
        is_right = len(rows) == 1 and f"`NEVE_{'__'.join(path).upper()}`" in rows[0]
        wrong[".".join(path)] = [] if is_right and ("not shown" in rows[0]) == secret else rows or ["is missing"]
    assert {path: rows for path, rows in wrong.items() if rows} == {}
    assert len(wrong) > 300


def test_variables_that_are_no_keys_are_documented() -> None:
    """What the loader passes by is explained too."""
    assert all(f"`{name}`" in pages()["configuration.md"] for name in NOT_KEYS)


def test_the_example_configuration_is_accepted(tmp_path: Path) -> None:
    """The file and the variables of the example load, and say what they seem to say."""
    _prose, (file, variables) = split_code(pages()["configuration.md"])
    path = tmp_path / "neve.yaml"
    path.write_text("\n".join(file.lines))
    assignments = [line.removeprefix("export ").partition("=") for line in variables.lines]
    settings = load_settings(str(path), {name: value.strip("'\"") for name, _, value in assignments})
    assert settings.organization == yaml.safe_load("\n".join(file.lines))["organization"]
    assert settings.spark.master == "local[4]"
    assert settings.ingest.fields.time == ("when", "timestamp")


def test_every_table_and_column_is_documented() -> None:
    """Each table has a section with a row for each column, and names the columns of its layout."""
    sections = sections_of("tables.md")
    for table in TABLES:
        text = sections[f"`{table.name}`"]
        for column in table.columns:
            row = rf"^\| `{column.name}` \| `.+` \| {'no' if column.required else 'yes'} \|"
            assert re.search(row, text, re.MULTILINE), f"{table.name}.{column.name}"
            assert column.comment in text
        layout = text.split("| Column |")[0]
        for name in (*table.sort, *table.bounded, *table.blooms, *(column for column, _transform in table.partition)):
            assert name in layout, f"{table.name}.{name}"


@pytest.mark.slow
def test_relative_links_lead_somewhere() -> None:
    """Every link inside the repository points to a file that exists, and to a heading that the file has."""
    links = [(str(path), target) for path in FILES for target in relative_links(read(path))]
    assert [(path, target) for path, target in links if broken_link(Path(path), target)] == []
    assert len(links) > 100


def test_commands_that_are_shown_can_be_typed() -> None:
    """Every `neve` command line in a block of code has a command, options and arguments that exist."""
    wrong, count = [], 0
    for path in FILES:
        for arguments in itertools.chain.from_iterable(map(neve_commands, split_code(read(path))[1])):
            count += 1
            try:
                parse(arguments)
            except click.UsageError as error:
                wrong.append(f"{path}: neve {' '.join(arguments)}: {error.format_message()}")
    assert wrong == []
    assert count > 100


def test_make_targets_that_are_shown_exist() -> None:
    """Every `make` target that is set as code is in the Makefile."""
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", read(Path("Makefile")), re.MULTILINE))
    shown = {
        (str(path), target)
        for path in FILES
        for target in re.findall(r"(?<![\w-])make ([a-z][a-z0-9-]*)", all_code(read(path)))
    }
    assert sorted((path, target) for path, target in shown if target not in targets) == []
    assert len(shown) > 20


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md"])
def test_source_files_that_are_named_exist(name: str) -> None:
    """A path to a Python file that is set as code is one of the repository, or of the package."""
    named = {code for code in inline_code(read(Path(name))) if re.fullmatch(r"[\w/]+/\w+\.py", code)}
    assert [
        path for path in sorted(named) if not any((base / path).exists() for base in (ROOT, ROOT / "src/neve"))
    ] == []


@pytest.mark.parametrize("package", [path.parent.name for path in sorted((ROOT / "src/neve").glob("*/__init__.py"))])
def test_every_package_has_a_short_page(package: str) -> None:
    """Of at most 40 lines, and the files that it names exist."""
    folder = ROOT / "src" / "neve" / package
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    files = {
        path.relative_to(ROOT).as_posix() for base in ("src", "tests", "page") for path in (ROOT / base).rglob("*.py")
    }
    named = {code for code in inline_code(text) if re.fullmatch(r"[\w/]+\.py", code)}
    assert [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in files)] == []


def test_decisions_have_one_shape_and_are_in_the_index() -> None:
    """Each decision has its number in the title and the same sections, and the index links to it."""
    index = relative_links(read(Path("docs/adr/README.md")))
    assert len(ADRS) > 20
    for path in ADRS:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], path.name
        assert path.name in index


def test_the_changelog_knows_this_version() -> None:
    """The version of the package has a section in the changelog."""
    assert re.search(rf"^## {re.escape(__version__)}\b", read(Path("CHANGELOG.md")), re.MULTILINE)


@pytest.mark.parametrize(
    ("language", "lines", "expected"),
    [
        ("sh", ["neve init"], [["init"]]),
        ("", ["NEVE_CACHE=/tmp/c .venv/bin/neve tables --json | head -3"], [["tables", "--json"]]),
        ("sh", ['neve query "SELECT 1', 'FROM spans" \\', "  --json > out.jsonl"], None),
        ("console", ["$ neve init && neve tables", "neve is not typed here"], [["init"], ["tables"]]),
        ("text", ["neve [OPTIONS] COMMAND"], []),
        ("sh", ["make demo  # then neve tables"], []),
    ],
)
def test_commands_are_found_as_a_shell_would(language: str, lines: list[str], expected: list[list[str]] | None) -> None:
    """Prompts, variables, pipes, quotes over several lines and comments are understood."""
    expected = [["query", "SELECT 1\nFROM spans", "--json"]] if expected is None else expected
    assert list(neve_commands(Block(language, tuple(lines)))) == expected


@pytest.mark.parametrize(
    "line", ["ingset files a", "ingest files", "ingest files a --sgnal logs", "query 1 --format x"]
)
def test_a_wrong_command_is_found(line: str) -> None:
    """A command, an argument, an option or a choice that does not exist is refused."""
    with pytest.raises(click.UsageError):
        parse(line.split())


def test_links_and_anchors_are_found_as_github_does() -> None:
    """Code is no link, a heading is an anchor, and a second one of the same name gets a number."""
    text = "# A `b` c\n[x](y.md#z) `[no](code)` [out](https://example.com)\n```\n[no](code)\n```\n## A b c\n[r]: q.md"
    assert relative_links(text) == ["y.md#z", "q.md"]
    assert anchors(text) == {"a-b-c", "a-b-c-1"}


def test_the_pages_are_where_the_generator_writes_them() -> None:
    """The generator works on the folder docs of this repository."""
    assert FOLDER == ROOT / "docs"
