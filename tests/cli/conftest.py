"""A folder of its own for every test, and one filled lake for those that only read."""

import json
import os
from pathlib import Path

import pytest

from tests.app.java_scripts import fake_java
from tests.query.lakes import ACME, make_lake, settings_of


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, a Java, and none of the user's own settings."""
    for variable in [name for name in os.environ if name.startswith("NEVE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17.0.15")))
    monkeypatch.setenv("NEVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a lake of two organizations; JSON is YAML."""
    folder = tmp_path_factory.mktemp("lake")
    make_lake(folder)
    path = folder / "acme.yaml"
    path.write_text(json.dumps(settings_of(folder) | {"organization": ACME}))
    return str(path)
