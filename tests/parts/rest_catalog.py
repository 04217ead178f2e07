"""The Iceberg REST catalog: the reference server over a SQLite file.

The jar's own main class binds every interface and has no setting for it, so a small main class of ours starts the same
servlet on loopback. Janino, a compiler that Spark ships, compiles it at start: a Java runtime without javac is enough.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.parts import cache, java
from tests.parts.probe import serves
from tests.parts.process import HOST, Part, free_port, running, scratch

NAME = "iceberg-open-api"
VERSION = "1.10.1"
HEAP_MEGABYTES = 512
MAIN = Path(__file__).with_name("LoopbackCatalog.java")
COMPILER = "org.codehaus.janino.SimpleCompiler"
BACKEND = "org.apache.iceberg.jdbc.JdbcCatalog"


@dataclass(frozen=True)
class RestCatalog:
    """A running REST catalog and the warehouse in which it puts tables."""

    port: int
    warehouse: str
    host: str = HOST

    @property
    def uri(self) -> str:
        """The address as Iceberg clients read it."""
        return f"http://{self.host}:{self.port}"


def missing() -> str | None:
    """Say why the REST catalog can't run here, or None when it can."""
    if reason := java.missing():
        return f"REST catalog: {reason}"
    if not jar().exists():
        return f"REST catalog: no {jar().name} in the cache (python -m tests.parts.build rest-catalog)"
    return None if java.spark_jar("janino") else "REST catalog: no pyspark found (pip install pyspark)"


@contextmanager
def rest_catalog(warehouse: str | None = None, properties: Mapping[str, str] | None = None) -> Iterator[RestCatalog]:
    """Run an empty catalog; tables go to a folder of its own, or to `warehouse`, reached by `properties`."""
    port = free_port()
    with scratch("rest-catalog") as folder:
        tables = warehouse or str(folder / "warehouse")
        settings = _settings(folder, tables, properties or {})
        part = Part("REST catalog", _command(port, settings), partial(serves, port, "/v1/config"), folder)
        with running(part):
            yield RestCatalog(port, tables)


def jar() -> Path:
    """Return where the cache keeps the server."""
    return cache.place(NAME, VERSION) / f"{NAME}-{VERSION}.jar"


def _settings(folder: Path, warehouse: str, properties: Mapping[str, str]) -> Path:
    """Write the catalog's properties; one connection, since SQLite takes one writer."""
    all_properties = {
        "catalog-impl": BACKEND,
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "jdbc.schema-version": "V1",
        "clients": "1",
        "warehouse": warehouse,
        **properties,
    }
    path = folder / "catalog.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in all_properties.items()))
    return path


def _command(port: int, settings: Path) -> list[str]:
    """Return the command that compiles and runs our main class beside the server's jar."""
    compiler = [found for name in ("janino", "commons-compiler") if (found := java.spark_jar(name))]
    arguments = (str(MAIN), MAIN.stem, HOST, str(port), str(settings))
    return java.command([jar(), *compiler], HEAP_MEGABYTES, COMPILER, *arguments)
