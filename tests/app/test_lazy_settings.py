"""Settings that load their sections at the first use are the same settings."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from neve.app.configuration.lazy_settings import PLAIN_DEFAULTS, SECTIONS, LazySettings, load_lazily
from neve.app.settings import Settings, load_settings
from neve.errors import ConfigError
from neve.lake.config import LakeConfig

IMPORTED = """
import sys
from neve.app.configuration.lazy_settings import load_lazily
settings = load_lazily(None, {"NEVE_CATALOG__PATH": "/lake/catalog.db"})
settings.lake.location
print(*(name for name in sys.modules if name.startswith("neve.") and name.endswith(".config")))
"""


def test_the_sections_are_those_of_the_settings() -> None:
    """Each field of the whole model is a section with its class, or a plain value with its default."""
    fields = Settings.model_fields
    assert {*SECTIONS, *PLAIN_DEFAULTS} == set(fields)
    for name, path in SECTIONS.items():
        kind = fields[name].annotation
        assert kind is not None
        assert f"{kind.__module__}:{kind.__name__}" == path
        assert fields[name].default == kind()
    assert {name: fields[name].default for name in PLAIN_DEFAULTS} == PLAIN_DEFAULTS


def test_every_value_is_that_of_the_whole_model(tmp_path: Path) -> None:
    """Set or not, from the file or from a variable."""
    file = tmp_path / "neve.yaml"
    file.write_text("organization: acme\nquery: {max_rows: 7}\ntail: {name: second}\n")
    environment = {"NEVE_CATALOG__KIND": "rest", "NEVE_CATALOG__URI": "http://127.0.0.1:1"}
    lazy, whole = load_lazily(str(file), environment), load_settings(str(file), environment)
    assert type(lazy).__name__ == LazySettings.__name__
    assert {name: getattr(lazy, name) for name in Settings.model_fields} == dict(whole)
    assert lazy.model_fields_set == whole.model_fields_set
    assert lazy.model_copy() == whole
    assert copy.deepcopy(lazy).query.max_rows == 7


def test_a_copy_has_other_sections_and_stays_lazy() -> None:
    """Copies of copies have the sections of all of them, also in the whole model."""
    lazy = load_lazily(None, {"NEVE_QUERY__MAX_ROWS": "7"})
    copied = lazy.model_copy(update={"lake": LakeConfig(warehouse="/other")})
    again = copied.model_copy(update={"query": copied.query.model_copy(update={"port": 1})})
    assert "complete" not in vars(again)
    assert (again.lake.warehouse, again.query.port, again.query.max_rows) == ("/other", 1, 7)
    assert again.model_fields_set == {"lake", "query"}
    assert again.model_copy() == load_settings(None, {}).model_copy(update={"lake": again.lake, "query": again.query})
    assert lazy.query.port != 1


@pytest.mark.parametrize(
    "text",
    [
        "organization: 'a b'\n",
        'organization: "acme\\n"\n',
        "organization: [acme]\n",
        "compact: {strateg: cost}\nquery: {max_rows: many}\n",
        "lake: 7\n",
        "lakes: {warehouse: x}\n",
        "policies: [{tasks: 3}]\n",
        "- lake\n",
        "lake: {warehouse: [\n",
    ],
)
def test_a_wrong_configuration_is_rejected_with_the_same_words(tmp_path: Path, text: str) -> None:
    """Also in sections that a command does not need."""
    file = tmp_path / "neve.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as whole:
        load_settings(str(file), {})
    with pytest.raises(ConfigError) as lazy:
        load_lazily(str(file), {})
    assert str(lazy.value) == str(whole.value)


def test_policies_load_the_whole_model(tmp_path: Path) -> None:
    """They have no section of their own."""
    file = tmp_path / "neve.yaml"
    file.write_text("policies_folder: policies\n")
    assert load_lazily(str(file), {}) == load_settings(str(file), {})


@pytest.mark.slow
def test_only_sections_in_use_are_imported() -> None:
    """Those of others cost a command nothing."""
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["neve.lake.config"]
