"""The package's metadata has ranges of versions, and the lock files have one version of each within its range."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
LOCKED = {
    name: dict(
        re.findall(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", (ROOT / "requirements" / name).read_text(), re.M)
    )
    for name in ("runtime.lock", "dev.lock")
}


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *EXTRAS])
def test_the_metadata_has_ranges(text: str) -> None:
    """An exact version would keep Neve from living beside another package that needs the next one."""
    operators = sorted(one.operator for one in Requirement(text).specifier)
    assert operators == ["<", ">="]


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *EXTRAS])
def test_the_locked_version_is_in_the_range(text: str) -> None:
    """Of the service's environment and of the developer's."""
    wanted = Requirement(text)
    files = LOCKED if text in PROJECT["dependencies"] else ("dev.lock",)
    for name in files:
        assert wanted.specifier.contains(LOCKED[name][wanted.name]), name
