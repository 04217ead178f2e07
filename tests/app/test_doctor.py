"""The doctor looks at everything, says what is wrong with its remedy, and never falls over."""

from pathlib import Path

import pytest

from neve.app.doctor import PACKAGES, Finding, examine
from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_lake
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.tables import TABLES
from tests.app.java_scripts import fake_java
from tests.query.quick import connect

CHECKS = [
    "python",
    "packages",
    "configuration",
    "java",
    "jars",
    "duckdb",
    "warehouse",
    "catalog",
    "tables",
    "streams",
    "state",
]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, a Java, and no jars."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", "17.0.15")))
    monkeypatch.setenv("NEVE_CACHE", str(tmp_path / "cache"))


def look(settings: Settings | None = None, lake: Lake | None = None) -> dict[str, Finding]:
    """What the doctor finds."""
    settings = settings or load_settings(None, {})
    findings = list(examine(settings, lake or build_lake(settings), config_file="neve.yaml"))
    return {finding.what: finding for finding in findings}


def test_a_new_folder_lacks_only_its_tables(tmp_path: Path) -> None:
    """Everything is looked at, in order; the remedy for missing tables is a command."""
    found = look()
    assert list(found) == CHECKS
    assert {what for what, finding in found.items() if finding.status == "wrong"} == {"tables"}
    assert found["tables"].detail == "missing: " + ", ".join(table.name for table in TABLES)
    assert found["tables"].remedy == "run `neve init`"
    assert found["java"].detail == f"17.0.15 at {tmp_path}/java/bin/java"
    assert all(f"{package} " in found["packages"].detail for package in PACKAGES)


def test_what_is_not_wrong_is_a_note() -> None:
    """No configuration file, and jars that Spark's first start will fetch."""
    found = look()
    assert (found["configuration"].status, found["configuration"].detail) == (
        "note",
        "no neve.yaml: all settings have their defaults",
    )
    assert found["jars"].status == "note"
    assert "iceberg-spark-runtime" in found["jars"].detail
    assert found["jars"].remedy == "downloaded when Spark first starts"


def test_a_configuration_file_is_named() -> None:
    """By its whole path."""
    Path("neve.yaml").write_text("organization: acme\n")
    assert look()["configuration"] == Finding("configuration", "ok", str(Path("neve.yaml").resolve()))


@pytest.mark.lake
def test_tables_that_are_there_are_compared_with_the_release() -> None:
    """Up to date after init; a table that lacks a column was made by an older release."""
    lake = build_lake(load_settings(None, {}))
    init_tables(lake)
    assert look(lake=lake)["tables"] == Finding("tables", "ok", f"{len(TABLES)} tables, up to date")
    with lake.table("logs").update_schema() as update:
        update.delete_column("flags")
    assert look(lake=lake)["tables"] == Finding(
        "tables", "note", "created by an older release: logs", "run `neve init`"
    )


def test_one_broken_thing_does_not_hide_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java, no DuckDB and no catalog are three findings, and an unexpected error is one in words."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("neve.app.doctor.connect", broken)
    found = look(load_settings(None, {"NEVE_CATALOG__KIND": "rest", "NEVE_CATALOG__URI": "nonsense"}))
    assert list(found) == CHECKS
    assert [found[what].status for what in ("java", "duckdb", "catalog", "tables")] == ["wrong"] * 4
    assert found["duckdb"].detail == "RuntimeError: first line"
    assert found["catalog"].detail == (
        "catalog.uri is 'nonsense', expected the http:// or https:// URL of a REST catalog"
    )
    assert found["java"].remedy is not None


def test_a_warehouse_that_cannot_be_written_to_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder that exists is named, and what can be done."""
    monkeypatch.setattr("neve.app.doctor.os.access", lambda *_: False)
    finding = look()["warehouse"]
    assert (finding.status, finding.detail) == ("wrong", f"{tmp_path} can't be written to")
    assert "lake.warehouse" in str(finding.remedy)


@pytest.mark.slow
def test_duckdb_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extensions of the installed packages."""
    monkeypatch.setattr("duckdb.connect", connect)
    assert look()["duckdb"] == Finding("duckdb", "ok", "starts, with the iceberg, avro and httpfs extensions")


def test_the_free_space_of_the_warehouse_is_said(tmp_path: Path) -> None:
    """Even before the folder is made."""
    finding = look()["warehouse"]
    assert finding.status == "ok"
    assert finding.detail.startswith(f"{tmp_path}/lake/warehouse, ")
    assert finding.detail.endswith(" GB free")


@pytest.mark.lake
def test_a_folder_with_a_space_in_its_name_holds_the_lake(tmp_path: Path) -> None:
    """The tables are made where the user said, and the doctor says that place."""
    settings = load_settings(None, {"NEVE_LAKE__WAREHOUSE": str(tmp_path / "my lake")})
    lake = build_lake(settings)
    init_tables(lake, TABLES[:1])
    assert look(settings, lake)["warehouse"].detail.startswith(f"{tmp_path}/my lake, ")
    assert list((tmp_path / "my lake").rglob("*.metadata.json"))


@pytest.mark.parametrize(
    ("days", "status", "words"),
    [(90, "ok", "certificate of neve"), (5, "note", "in 4 days"), (-0.5, "wrong", "expired")],
)
def test_certificates_are_examined(tmp_path: Path, days: float, status: str, words: str) -> None:
    """The shared one once, with its end; one that expires soon is worth a note, an expired one is wrong."""
    from tests.tls.authority import Authority

    tls = Authority(tmp_path).issue("neve", days=days).settings()
    found = look(Settings.model_validate({"tls": tls, "serve": {"tls": {"enabled": False}}}))
    assert list(found) == [*CHECKS, "tls"]
    assert found["tls"].status == status
    assert words in found["tls"].detail
