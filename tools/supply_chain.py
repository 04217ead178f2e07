"""Bill of materials in CycloneDX, and a search of locked packages and jars in vulnerability data (OSV).

`python -m tools.supply_chain sbom` prints the bill. `audit FOLDER` searches OSV files offline. `audit` without a folder
runs pip-audit, in an environment of its own, which asks the vulnerability service.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from neve import __version__
from neve.lake.spark import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "runtime.lock"
ENVIRONMENT = ROOT / ".make" / "audit"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Component:
    """A package or jar, and the hashes of its files."""

    ecosystem: str
    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL."""
        kind = "pypi" if self.ecosystem == "PyPI" else "maven"
        return f"pkg:{kind}/{self.name.replace(':', '/')}@{self.version}"


def read_lock(path: Path = LOCK) -> list[Component]:
    """Return the packages of a lock file."""
    text = path.read_text()
    starts = [*PINNED.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        Component("PyPI", match[1].lower(), match[2], tuple(HASH.findall(text[match.start() : end])))
        for match, end in zip(starts, ends, strict=True)
    ]


def read_jars() -> list[Component]:
    """Return the pinned jars."""
    found = {value for value in vars(jars).values() if isinstance(value, jars.Jar)}
    for value in vars(jars).values():
        if isinstance(value, tuple):
            found |= {one for one in value if isinstance(one, jars.Jar)}
    components = [Component("Maven", f"{jar.group}:{jar.artifact}", jar.version, (jar.sha256,)) for jar in found]
    return sorted(components, key=lambda one: one.purl)


def build_bill() -> dict[str, Any]:
    """Return the bill of materials in CycloneDX 1.6."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "neve", "version": __version__, "bom-ref": "neve"}},
        "components": [_describe(one) for one in (*read_lock(), *read_jars())],
    }


def _describe(one: Component) -> dict[str, Any]:
    group, _, name = one.name.rpartition(":")
    described = {"type": "library", "bom-ref": one.purl, "name": name, "version": one.version, "purl": one.purl}
    if group:
        described["group"] = group
    if len(one.hashes) == 1:
        return {**described, "hashes": [{"alg": "SHA-256", "content": one.hashes[0]}]}
    # A package has a file for each platform; a component has one file.
    return {**described, "properties": [{"name": "neve:sha256", "value": value} for value in one.hashes]}


def read_records(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the OSV records of a folder: files of JSON, and archives of them."""
    for path in sorted(folder.rglob("*.json")):
        yield json.loads(path.read_text())
    for path in sorted(folder.rglob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield json.loads(archive.read(name))


def find_vulnerable(components: list[Component], records: Iterator[dict[str, Any]]) -> list[tuple[str, Component]]:
    """Return the ids of records with the components that they affect."""
    by_name = {(one.ecosystem, one.name): one for one in components}
    found = []
    for record in records:
        if record.get("withdrawn"):
            continue
        for affected in record.get("affected", []):
            package = affected.get("package", {})
            one = by_name.get((package.get("ecosystem", ""), package.get("name", "").lower().replace("_", "-")))
            if one is not None and _is_affected(one.version, affected):
                found.append((str(record["id"]), one))
    return found


def _is_affected(version: str, affected: dict[str, Any]) -> bool:
    if version in affected.get("versions", []):
        return True
    ranges = (one for one in affected.get("ranges", []) if one.get("type") in ("ECOSYSTEM", "SEMVER"))
    return any(_is_within(version, one.get("events", [])) for one in ranges)


def _is_within(version: str, events: list[dict[str, str]]) -> bool:
    """Return whether a version is in a range: after `introduced`, and before `fixed` or up to `last_affected`."""
    is_in = False
    for event in events:
        if "introduced" in event and _key(version) >= _key(event["introduced"]):
            is_in = True
        if "fixed" in event and _key(version) >= _key(event["fixed"]):
            is_in = False
        if "last_affected" in event and _key(version) > _key(event["last_affected"]):
            is_in = False
    return is_in


def _key(version: str) -> Version:
    """Return a version that can be compared; of a Maven version the numbers at its beginning."""
    try:
        return Version(version)
    except InvalidVersion:
        numbers = re.match(r"\d+(?:\.\d+)*", version)
        return Version(numbers[0] if numbers else "0")


def audit(folder: str) -> int:
    """Search packages and jars offline in a folder, or packages at the service; return the exit code."""
    if not folder:
        return _run_pip_audit()
    components = [*read_lock(), *read_jars()]
    found = find_vulnerable(components, read_records(Path(folder)))
    for name, one in found:
        print(f"{name}: {one.purl}")
    print(f"{len(found)} vulnerabilities in {len(components)} packages and jars")
    return 1 if found else 0


def _run_pip_audit() -> int:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "pip-audit"], check=True)
    command = [str(python), "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json", "-r", str(LOCK)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print("pip-audit returned no result")
        return 2
    lines, code = report_service(found)
    print("\n".join(lines))
    return code


def report_service(found: list[dict[str, Any]]) -> tuple[list[str], int]:
    """Return the lines and the exit code for pip-audit's result: 1 for a vulnerability, 2 if packages were not audited.

    Pip-audit itself ends with success if it could not look up a single package.
    """
    lines = [f"{bad['id']}: pkg:pypi/{one['name']}@{one['version']}" for one in found for bad in one.get("vulns", [])]
    skipped = [one["name"] for one in found if "skip_reason" in one]
    summary = f"{len(lines)} vulnerabilities in {len(found) - len(skipped)} packages"
    if skipped:
        summary += f"; {len(skipped)} packages are not known to the service and were NOT audited: {', '.join(skipped)}"
        summary += "\nhint: download the OSV data of PyPI and Maven, and run `make audit AUDIT_DATA=FOLDER`"
    return [*lines, summary], 1 if lines else 2 if skipped or not found else 0


def main() -> None:
    """Run the command that the arguments name."""
    match sys.argv[1:]:
        case ["sbom"]:
            print(json.dumps(build_bill(), indent=1))
        case ["audit", *folder]:
            sys.exit(audit(folder[0] if folder else ""))
        case _:
            sys.exit("usage: python -m tools.supply_chain sbom | audit [FOLDER]")


if __name__ == "__main__":
    main()
