"""Scripts that say to be a Java."""

from pathlib import Path


def fake_java(home: Path, version: str, *, code: int = 0, before: str = "") -> Path:
    """A JAVA_HOME whose `java -version` says this on standard error, as every vendor's does."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = f'{before}openjdk version "{version}" 2025-04-15' if version else before
    lines = "\n".join(f"echo '{line}' >&2" for line in (*said.splitlines(), "OpenJDK Runtime Environment"))
    path.write_text(f"#!/bin/sh\n{lines}\nexit {code}\n")
    path.chmod(0o755)
    return home
