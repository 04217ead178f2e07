"""Find Java, and report clearly if it is missing or too old."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from neve.errors import EnvironmentFault

OLDEST = 17
INSTALL = (
    "install a JDK or JRE 17 or later: `apt-get install openjdk-17-jre-headless` on Debian and Ubuntu, "
    "`dnf install java-17-openjdk-headless` on Fedora, `brew install openjdk@17` on a Mac; "
    "or point JAVA_HOME at one"
)


@dataclass(frozen=True)
class Java:
    """A Java installation and its version."""

    path: Path
    version: str

    @property
    def major(self) -> int:
        """The feature release: 17 for 17.0.15, 8 for 1.8.0_452."""
        return parse_major_version(self.version)


def parse_major_version(version: str) -> int:
    """Parse the feature release of a version text.

    >>> parse_major_version("17.0.15"), parse_major_version("1.8.0_452"), parse_major_version("25-ea")
    (17, 8, 25)
    """
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def find_java() -> Java:
    """Return the Java that Spark will use. Raises `EnvironmentFault` if there is none, or if it is too old."""
    path = find_java_path()
    if path is None:
        raise EnvironmentFault(
            f"no Java was found on PATH or in JAVA_HOME, version {OLDEST} or later is needed", hint=INSTALL
        )
    java = Java(path, _read_version(path))
    if java.major < OLDEST:
        raise EnvironmentFault(
            f"Java {java.version} was found at {path}, version {OLDEST} or later is needed", hint=INSTALL
        )
    return java


def find_java_path() -> Path | None:
    """Return the path of Java in Spark's search order: JAVA_HOME first, then PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        if candidate.exists():
            return candidate
        raise EnvironmentFault(f"JAVA_HOME is {home!r}, but there is no bin/java in it", hint=INSTALL)
    found = shutil.which("java")
    return Path(found) if found else None


def _read_version(path: Path) -> str:
    try:
        # All vendors print the version to standard error.
        output = subprocess.run([str(path), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(f"{path} -version failed: {error}", hint=INSTALL) from error
    match = re.search(r'version "([^"]+)"', output)
    if match is None:
        raise EnvironmentFault(f"{path} -version printed {output.strip()!r}, expected a version", hint=INSTALL)
    return match[1]
