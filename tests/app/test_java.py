"""Java is found where Spark looks for it, and its absence or age is said with what to do."""

from pathlib import Path

import pytest

from neve.errors import EnvironmentFault
from neve.lake.spark.java import OLDEST, find_java, find_java_path, parse_major_version
from tests.app.java_scripts import fake_java


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, until a test puts one there."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")


def fault() -> EnvironmentFault:
    """What `find_java` says."""
    with pytest.raises(EnvironmentFault) as caught:
        find_java()
    return caught.value


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_452", 8), ("11.0.2+9", 11), ("17.0.15+6-LTS", 17), ("1", 1)],
)
def test_versions(version: str, major: int) -> None:
    """Old and new ways of numbering."""
    assert parse_major_version(version) == major


@pytest.mark.parametrize("version", ["17.0.15", "21.0.1", "25-ea"])
def test_a_java_that_is_new_enough_is_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path and version are known."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    java = find_java()
    assert (java.path, java.version) == (tmp_path / "bin" / "java", version)
    assert java.major >= OLDEST


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's own scripts have it."""
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'old', '11.0.2')}/bin:/bin:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.1")))
    assert find_java().version == "21.0.1"


def test_java_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without JAVA_HOME, or with an empty one."""
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path, '17.0.1')}/bin:/bin:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", "")
    assert find_java().path == tmp_path / "bin" / "java"


def test_what_the_jvm_says_first_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_TOOL_OPTIONS makes it say a line before its version."""
    home = fake_java(tmp_path, "17.0.15", before="Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().version == "17.0.15"


def test_no_java_is_said_with_the_remedy() -> None:
    """Where it was looked for, what is needed, and how to install it on the usual systems."""
    error = fault()
    assert find_java_path() is None
    assert error.message == "no Java was found on PATH or in JAVA_HOME, version 17 or later is needed"
    for way in ("apt-get install openjdk-17", "dnf install java-17", "brew install openjdk@17", "JAVA_HOME"):
        assert way in str(error.hint)


@pytest.mark.parametrize("version", ["1.8.0_452", "11.0.27", "16.0.2"])
def test_a_java_that_is_too_old_is_said(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that was found, where, and the one that is needed."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    error = fault()
    assert f"Java {version} was found at {tmp_path}/bin/java" in error.message
    assert "version 17 or later is needed" in error.message
    assert "apt-get install" in str(error.hint)


def test_a_wrong_java_home_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where there is a Java on the path: Spark would not use it."""
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'good', '17.0.1')}/bin:/bin:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert fault().message == f"JAVA_HOME is {str(tmp_path)!r}, but there is no bin/java in it"


def test_a_java_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that exits with an error."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.15", code=3)))
    assert f"{tmp_path}/bin/java -version failed" in fault().message


def test_a_java_that_cannot_be_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no program."""
    home = fake_java(tmp_path, "17.0.15")
    (home / "bin" / "java").write_bytes(b"\x00\x01")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "-version failed" in fault().message


def test_a_java_that_says_no_version_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did say is in the words."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "", before="hello")))
    error = fault()
    assert "hello" in error.message
    assert "expected a version" in error.message
