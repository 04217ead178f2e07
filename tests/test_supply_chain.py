"""The bill of materials is complete and valid, and vulnerable versions are found in OSV data."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.supply_chain import Component, build_bill, find_vulnerable, read_jars, read_lock, report_service

if TYPE_CHECKING:
    from pathlib import Path

DUCKDB = Component("PyPI", "duckdb", "1.5.5", ())
KAFKA = Component("Maven", "org.apache.kafka:kafka-clients", "3.9.1", ())


def record(name: str, ecosystem: str = "PyPI", **affected: Any) -> dict[str, Any]:
    """An OSV record."""
    return {"id": "OSV-1", "affected": [{"package": {"ecosystem": ecosystem, "name": name}, **affected}]}


def events(*pairs: tuple[str, str]) -> dict[str, Any]:
    """A range of versions."""
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{key: value} for key, value in pairs]}]}


@pytest.mark.parametrize(
    ("found", "is_affected"),
    [
        (record("duckdb", versions=["1.5.5"]), True),
        (record("DuckDB", versions=["1.5.4"]), False),
        (record("duckdb", **events(("introduced", "0"), ("fixed", "1.5.6"))), True),
        (record("duckdb", **events(("introduced", "0"), ("fixed", "1.5.5"))), False),
        (record("duckdb", **events(("introduced", "1.0"), ("last_affected", "1.5.5"))), True),
        (record("duckdb", **events(("introduced", "2.0"))), False),
        (
            record("org.apache.kafka:kafka-clients", "Maven", **events(("introduced", "2.3.0"), ("fixed", "3.9.2"))),
            True,
        ),
        (record("duckdb", "npm", versions=["1.5.5"]), False),
        ({**record("duckdb", versions=["1.5.5"]), "withdrawn": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_affected_versions_are_found(found: dict[str, Any], is_affected: bool) -> None:
    """By their list, and by ranges."""
    assert bool(find_vulnerable([DUCKDB, KAFKA], iter([found]))) == is_affected


def test_everything_that_is_locked_is_in_the_bill() -> None:
    """Each package and each jar, with its hashes."""
    bill = build_bill()
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(refs) == len(set(refs)) == len(read_lock()) + len(read_jars())
    assert all(one.get("hashes") or one.get("properties") for one in bill["components"])
    assert any(ref.startswith("pkg:maven/org.apache.iceberg/iceberg-spark-runtime") for ref in refs)
    assert any(ref.startswith("pkg:pypi/duckdb@") for ref in refs)


def test_the_bill_is_valid() -> None:
    """By the schema of CycloneDX 1.6, with no unknown property."""
    checker = JsonStrictValidator(SchemaVersion.V1_6)
    assert checker.validate_str(json.dumps(build_bill())) is None


@pytest.mark.slow
def test_the_audit_fails_for_a_finding(tmp_path: Path) -> None:
    """Offline, from files and archives, with the id and the package."""
    command = [sys.executable, "-m", "tools.supply_chain", "audit", str(tmp_path)]
    clean = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (clean.returncode, clean.stdout[:17]) == (0, "0 vulnerabilities")
    version = next(one.version for one in read_lock() if one.name == "duckdb")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("OSV-1.json", json.dumps(record("duckdb", versions=[version])))
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    assert f"OSV-1: pkg:pypi/duckdb@{version}" in found.stdout


def test_packages_that_the_service_does_not_know_fail_the_audit() -> None:
    """A look-up that found nothing is no audit: the exit code tells it from success and from a finding."""
    known = {"name": "duckdb", "version": "1.0", "vulns": []}
    bad = {"name": "rich", "version": "2.0", "vulns": [{"id": "PYSEC-1"}]}
    skipped = {"name": "click", "skip_reason": "not found"}
    assert report_service([known]) == (["0 vulnerabilities in 1 packages"], 0)
    lines, code = report_service([known, skipped])
    assert code == 2
    assert "1 packages are not known to the service and were NOT audited: click" in lines[0]
    assert report_service([known, bad, skipped])[0][0] == "PYSEC-1: pkg:pypi/rich@2.0"
    assert report_service([bad, skipped])[1] == 1
    assert report_service([])[1] == 2
