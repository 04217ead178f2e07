"""The Java virtual machine that runs parts made of jars."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.parts import package

SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def program() -> str | None:
    """Return the java of JAVA_HOME, else the one on the path, or None when there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def missing() -> str | None:
    """Say why no jar can run here, or None when one can."""
    return None if program() else "no java found (Debian package openjdk-17-jre-headless, or set JAVA_HOME)"


def command(jars: Iterable[Path | str], heap_megabytes: int, main: str, *arguments: str) -> list[str]:
    """Return the command line that runs a main class in a small virtual machine."""
    classpath = os.pathsep.join(map(str, jars))
    return [program() or "java", f"-Xmx{heap_megabytes}m", *SMALL, "-cp", classpath, main, *arguments]


def spark_jar(name: str) -> Path | None:
    """Return a jar that PySpark ships, such as ivy or janino, or None when PySpark is not installed."""
    return package.file("pyspark", f"jars/{name}-[0-9]*.jar")
