"""Jars that Spark needs: pinned, downloaded once into the user's cache, verified by hash at each start.

Spark could resolve them at each start, which costs seconds and needs the network every time. Here the Ivy that
pyspark ships downloads them when a command first needs them. After that a session gets plain paths.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from neve.errors import EnvironmentFault
from neve.lake.spark.java import find_java
from neve.local_folders import make_private_folder


@dataclass(frozen=True)
class Jar:
    """A Maven artifact and its expected hash."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of the file in the cache."""
        return f"{self.artifact}-{self.version}.jar"


ICEBERG = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
ICEBERG_AWS = Jar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    "1.12.0",
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
SQLITE = Jar(
    "org.xerial",
    "sqlite-jdbc",
    "3.50.3.0",
    "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
)
POSTGRES = Jar(
    "org.postgresql",
    "postgresql",
    "42.7.7",
    "157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460",
)
KAFKA = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.1.3",
        "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
    ),
    # Delegation tokens. Version 4.1 is not on every mirror, and 4.0.0 works with the source above.
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.1",
        "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    ),
)
ALL = (ICEBERG, SQLITE, POSTGRES, ICEBERG_AWS, *KAFKA)


def select_jars(catalog_kind: str, *, on_s3: bool) -> tuple[Jar, ...]:
    """Return the jars that a session with this catalog and warehouse needs."""
    drivers = {"sqlite": (SQLITE,), "postgres": (POSTGRES,)}.get(catalog_kind, ())
    aws = (ICEBERG_AWS,) if on_s3 or catalog_kind == "glue" else ()
    return (ICEBERG, *drivers, *aws)


def find_cache_dir() -> Path:
    """Return the cache folder: NEVE_CACHE, or else the user's cache folder."""
    own = os.environ.get("NEVE_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neve"


def local_paths(jars: Iterable[Jar]) -> list[Path]:
    """Return the files of jars. Download those that are not in the cache."""
    return [_ensure_cached(jar) for jar in jars]


def _ensure_cached(jar: Jar) -> Path:
    path = find_cache_dir() / "jars" / jar.file_name
    if not path.exists():
        _fetch(jar, path)
    found = path.stat()
    digest = hash_file(path, found.st_size, found.st_mtime_ns, found.st_ino)
    if digest != jar.sha256:
        raise EnvironmentFault(
            f"{path} has the SHA-256 {digest}, expected {jar.sha256}: it is not the jar that Neve was tested with",
            hint="it was changed or copied in part: remove it, and it is fetched again",
        )
    return path


@cache
def hash_file(path: Path, _size: int, _changed: int, _inode: int) -> str:
    """Return the SHA-256 of a file. Each process reads an unchanged file once.

    All jars together take a tenth of a second to hash. They are verified because their code runs as the user.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(jar: Jar, path: Path) -> None:
    print(f"fetching {jar.file_name} (once, into {path.parent})", file=sys.stderr)  # noqa: T201
    make_private_folder(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fetched = Path(folder) / jar.file_name
        _run_ivy(jar, Path(folder))
        found = hashlib.sha256(fetched.read_bytes()).hexdigest() if fetched.exists() else "no file"
        if found != jar.sha256:
            raise EnvironmentFault(
                f"{jar.group}:{jar.artifact}:{jar.version} has the hash {found}, expected {jar.sha256}",
                hint="a mirror may serve another file; remove it there and try again",
            )
        fetched.replace(path)  # atomic: another process may read the cache


def _run_ivy(jar: Jar, folder: Path) -> None:
    command = [
        *(str(find_java().path), "-jar", str(_find_ivy()), "-cache", str(folder / "ivy"), "-notransitive"),
        *("-dependency", jar.group, jar.artifact, jar.version, "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", str(folder / "[artifact]-[revision].[ext]")),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EnvironmentFault(
            f"can't fetch {jar.group}:{jar.artifact}:{jar.version}: {_last_lines(result.stdout + result.stderr)}",
            hint="check the network; behind a proxy set JAVA_TOOL_OPTIONS, behind a mirror put the file into "
            f"{find_cache_dir() / 'jars'} by hand",
        )


def _find_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentFault("pyspark is not installed", hint="pip install neve")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))


def _last_lines(output: str) -> str:
    r"""Return the cause from the output of Ivy, without its frames of colons.

    >>> _last_lines("\t::::::\n\t:: org.example#tool;1.0: not found\n\t::::::\n")
    'org.example#tool;1.0: not found'
    """
    lines = [line.strip(" \t:") for line in output.splitlines() if "ERROR" in line or "not found" in line]
    return "; ".join(lines[-3:]) or output.strip()[-300:]


if __name__ == "__main__":
    try:
        local_paths((ICEBERG, SQLITE))
    except EnvironmentFault as fault:
        sys.exit(f"neve: {fault}")
