"""The configuration: defaults, a file, variables over it, and words for everything that is wrong."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from neve.app.settings import Settings, load_settings
from neve.errors import ConfigError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a configuration."""
    monkeypatch.chdir(tmp_path)


def load(text: str = "", environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file and variables."""
    Path("neve.yaml").write_text(text)
    return load_settings(None, environment or {})


def complaint(text: str = "", environment: Mapping[str, str] | None = None) -> str:
    """What is said of a wrong configuration."""
    with pytest.raises(ConfigError) as caught:
        load(text, environment)
    return caught.value.message


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of the tree, with its path."""
    for name, field in model.model_fields.items():
        yield path + name, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, f"{path}{name}.")


def test_every_key_is_described() -> None:
    """A help line for each, lower case unless it begins with a name, without a full stop."""
    tree = dict(fields(Settings))
    assert len(tree) > 40
    for path, field in tree.items():
        assert field.description, path
        assert not field.description.endswith("."), path


def test_every_key_has_a_default() -> None:
    """No file and no variables give a whole configuration, which is what the tree says."""
    assert load_settings(None, {}) == Settings()
    assert [path for path, field in fields(Settings) if field.is_required()] == []


def test_defaults() -> None:
    """The embedded lake, in the folder where one stands."""
    settings = load_settings(None, {})
    assert (settings.organization, settings.catalog.kind, settings.spark.master) == ("default", "sqlite", "local[*]")
    assert settings.lake.location == (Path.cwd() / "lake/warehouse").as_uri()
    assert not settings.lake.on_s3


def test_settings_are_frozen() -> None:
    """Nobody changes them on the way."""
    with pytest.raises(ValueError, match="frozen"):
        load().lake.warehouse = "elsewhere"  # type: ignore[misc]


def test_the_file_is_read_and_variables_win() -> None:
    """Two underscores go down one level; keys that the variable does not name keep the file's value."""
    text = "organization: acme\nlake: {warehouse: from-file}\nquery: {max_rows: 7}\n"
    settings = load(text, {"NEVE_LAKE__WAREHOUSE": "from-variable", "NEVE_QUERY__THREADS": "3", "OTHER": "x"})
    assert settings.organization == "acme"
    assert (settings.lake.warehouse, settings.query.max_rows) == ("from-variable", 7)
    assert settings.query.threads == 3


def test_the_file_may_be_named() -> None:
    """By an argument, or by a variable; the argument wins."""
    for name in ("a", "b"):
        Path(f"{name}.yaml").write_text(f"organization: {name}\n")
    assert load_settings("a.yaml", {}).organization == "a"
    assert load_settings(None, {"NEVE_CONFIG": "b.yaml"}).organization == "b"
    assert load_settings("a.yaml", {"NEVE_CONFIG": "b.yaml"}).organization == "a"


def test_variables_may_hold_lists_and_maps() -> None:
    """As JSON or YAML; other text is text, numbers and flags are read as such."""
    environment = {
        "NEVE_INGEST__FIELDS__TIME": '["when", "then"]',
        "NEVE_SPARK__CONF": '{"spark.executor.memory": "4g"}',
        "NEVE_S3__PATH_STYLE": "false",
        "NEVE_CATALOG__NAME": "main",
        "NEVE_CACHE": "/not/a/key",
    }
    settings = load("", environment)
    assert settings.ingest.fields.time == ("when", "then")
    assert settings.spark.conf == {"spark.executor.memory": "4g"}
    assert not settings.s3.path_style


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lake: {warehose: x}", "neve.yaml: lake.warehose: unknown key 'warehose', did you mean 'warehouse'?"),
        ("spork: {}", "neve.yaml: spork: unknown key 'spork', did you mean 'spark'?"),
        ("ingest: {fields: {mesage: [m]}}", "unknown key 'mesage', did you mean 'message'?"),
        ("query: {zzz: 1}", "unknown key 'zzz', expected one of host, port, auth, tls, allowed_hosts, origin,"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(text: str, words: str) -> None:
    """The whole path of the key is said, and the key that was meant, or all that there are."""
    assert words in complaint(text)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("NEVE_LAKE__WAREHOSE", "NEVE_LAKE__WAREHOSE: unknown key 'warehose', did you mean 'warehouse'?"),
        ("NEVE_SPARKMASTER", "NEVE_SPARKMASTER: unknown key 'sparkmaster'"),
        ("NEVE_NOTHING", "unknown key 'nothing', expected one of organization, lake, catalog"),
    ],
)
def test_an_unknown_variable_is_refused(variable: str, words: str) -> None:
    """A typing error in a variable is never passed over."""
    assert words in complaint("", {variable: "x"})


@pytest.mark.parametrize(
    ("text", "key", "value", "expected"),
    [
        ("ingest: {task_bytes: lots}", "ingest.task_bytes", "'lots'", "valid integer"),
        ("query: {threads: -1}", "query.threads", "-1", "greater than or equal to 0"),
        ("query: {memory_limit: 4 apples}", "query.memory_limit", "'4 apples'", r"^\d+(MB|GB)$"),
        ("catalog: {kind: mysql}", "catalog.kind", "'mysql'", "'sqlite', 'postgres', 'rest' or 'glue'"),
        ("s3: {path_style: maybe}", "s3.path_style", "'maybe'", "valid boolean"),
        ("organization: a b", "organization", "'a b'", "A-Za-z0-9._-"),
        ("ingest: {fields: {time: when}}", "ingest.fields.time", "'when'", "valid tuple"),
        ("catalog: {properties: {a: [1]}}", "catalog.properties.a", "list", "valid string"),
        ("spark: {connect: 'http://x'}", "spark.connect", "'http://x'", "sc://"),
    ],
)
def test_a_bad_value_is_said(text: str, key: str, value: str, expected: str) -> None:
    """The key, the value and what was expected."""
    said = complaint(text)
    assert said.startswith(f"neve.yaml: {key}: got {value}, which ")
    assert expected in said


def test_a_bad_variable_is_named_itself() -> None:
    """The user looks for what the user wrote."""
    assert complaint("", {"NEVE_QUERY__THREADS": "many"}).startswith("NEVE_QUERY__THREADS: got 'many', which should be")


def test_a_variable_below_a_plain_key_is_named_itself() -> None:
    """The file says nothing of the kind."""
    assert complaint("", {"NEVE_LAKE__WAREHOUSE__X": "1"}).startswith("NEVE_LAKE__WAREHOUSE__X: ")


def test_everything_wrong_is_said_at_once() -> None:
    """One line for each."""
    said = complaint("lake: {warehose: x}\nquery: {threads: -1}\n", {"NEVE_NOTHING": "1"})
    assert len(said.splitlines()) == 3


def test_a_variable_cannot_go_below_a_plain_value() -> None:
    """The variable and the key of the file are named."""
    said = complaint("lake: here\n", {"NEVE_LAKE__WAREHOUSE": "x"})
    assert said == "NEVE_LAKE__WAREHOUSE sets a key below lake, but lake has a plain value in the file"


@pytest.mark.parametrize("environment", [{}, {"NEVE_LAKE__WAREHOUSE": "lake/warehouse"}])
def test_an_empty_section_has_its_defaults(environment: dict[str, str]) -> None:
    """`lake:` with nothing under it is what is left when its keys are commented out."""
    assert load("lake:\n  # warehouse: x\n", environment).lake == Settings().lake


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [1", "neve.yaml is not YAML (line 1)"), ("- a\n- b\n", "neve.yaml holds list, expected"), ("5", "holds int")],
)
def test_a_file_that_is_no_configuration_is_refused(text: str, words: str) -> None:
    """Broken YAML, or YAML of another shape."""
    assert words in complaint(text)


def test_a_file_that_is_not_utf8_is_refused() -> None:
    """In words, not with a traceback."""
    Path("neve.yaml").write_bytes(b"organization: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"neve\.yaml"):
        load_settings(None, {})


def test_a_file_that_is_named_must_be_there() -> None:
    """And must be a file."""
    for path, words in [("gone.yaml", "gone.yaml does not exist"), (".", "can't read .: Is a directory")]:
        with pytest.raises(ConfigError, match=words):
            load_settings(path, {})


def test_a_file_that_is_named_must_be_there_even_by_the_default_name() -> None:
    """`neve -c neve.yaml` in the wrong folder must not quietly work on another lake."""
    with pytest.raises(ConfigError, match=r"neve\.yaml does not exist"):
        load_settings("neve.yaml", {})


def test_an_empty_file_is_no_error() -> None:
    """Neither is one of comments."""
    assert load("# nothing\n") == Settings()


def test_broken_yaml_in_a_variable_is_refused_without_its_value() -> None:
    """A password may begin with a bracket."""
    said = complaint("", {"NEVE_S3__SECRET_KEY": "[hunter2"})
    assert said == "NEVE_S3__SECRET_KEY looks like a list or a map, but is not valid YAML or JSON"
