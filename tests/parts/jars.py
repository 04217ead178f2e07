"""Jars by their Maven coordinates, fetched by the Ivy that PySpark ships, or by Maven where Ivy can't."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.parts import java
from tests.parts.command import CommandError, run

FILE_NAME = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True)
class Artifact:
    """One jar, with or without all that it needs at run time."""

    organisation: str
    module: str
    version: str
    transitive: bool = True


def missing() -> str | None:
    """Say why no jar can be fetched here, or None when one can."""
    if reason := java.missing():
        return reason
    found = java.spark_jar("ivy") or shutil.which("mvn")
    return None if found else "neither pyspark nor mvn found (pip install pyspark)"


def fetch(artifacts: Sequence[Artifact], into: Path) -> None:
    """Put the artifacts, resolved together so that each module comes in one version, into a folder."""
    ivy = java.spark_jar("ivy")
    try:
        if ivy is None:
            raise CommandError("pyspark is not installed, so there is no ivy")
        _with_ivy(ivy, artifacts, into)
    except CommandError:
        if not shutil.which("mvn"):
            raise
        _with_maven(artifacts, into)


def _with_ivy(ivy: Path, artifacts: Sequence[Artifact], into: Path) -> None:
    """Let Ivy resolve from its built-in public repository, with a cache of its own beside the target."""
    work = into.parent
    module = work / "ivy.xml"
    module.write_text(_ivy_module(artifacts))
    options = ("-warn", "-cache", str(work / "ivy"), "-types", "jar", "bundle", "-ivy", str(module))
    run([java.program() or "java", "-jar", str(ivy), *options, "-retrieve", f"{into}/{FILE_NAME}"], work)


def _with_maven(artifacts: Sequence[Artifact], into: Path) -> None:
    """Let Maven copy what a project that depends on the artifacts would have on its class path."""
    work = into.parent
    (work / "pom.xml").write_text(_maven_project(artifacts))
    options = ("-B", "-q", f"-DoutputDirectory={into}", "-DincludeScope=runtime")
    run(["mvn", *options, "dependency:copy-dependencies"], work)


def _ivy_module(artifacts: Sequence[Artifact]) -> str:
    """Return an Ivy file that depends on the artifacts' run-time configuration."""
    dependencies = "".join(
        f'<dependency org="{a.organisation}" name="{a.module}" rev="{a.version}"'
        f' transitive="{str(a.transitive).lower()}"/>'
        for a in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="neve" module="parts"/>'
        '<configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default">{dependencies}</dependencies></ivy-module>'
    )


def _maven_project(artifacts: Sequence[Artifact]) -> str:
    """Return a Maven project that depends on the artifacts."""
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{a.organisation}</groupId><artifactId>{a.module}</artifactId>"
        f"<version>{a.version}</version>{'' if a.transitive else alone}</dependency>"
        for a in artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>neve</groupId><artifactId>parts</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
