"""S3: moto, which keeps objects in memory, and versitygw, which keeps them as files."""

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.parts import cache
from tests.parts.probe import serves
from tests.parts.process import HOST, Part, free_port, running, scratch

KEY = "test"
REGION = "us-east-1"
VERSITYGW = "versitygw"
VERSITYGW_VERSION = "1.8.0"


@dataclass(frozen=True)
class S3:
    """A running S3 server; `folder` is where its objects are files, when they are."""

    port: int
    host: str = HOST
    access_key: str = KEY
    secret_key: str = KEY
    region: str = REGION
    folder: Path | None = None

    @property
    def endpoint(self) -> str:
        """The address as S3 clients read it."""
        return f"http://{self.host}:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """The settings by which pyiceberg and Iceberg's S3FileIO reach this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": self.region,
            "client.region": self.region,
        }


def missing() -> str | None:
    """Say why moto can't run here, or None when it can."""
    found = find_spec("moto") and find_spec("flask")
    return None if found else "S3: no moto server found (pip install 'moto[server]')"


def missing_versitygw() -> str | None:
    """Say why versitygw can't run here, or None when it can."""
    found = versitygw_program().exists()
    return None if found else "S3: no versitygw in the cache (python -m tests.parts.build versitygw)"


@contextmanager
def s3() -> Iterator[S3]:
    """Run an empty moto server, which takes any key."""
    port = free_port()
    with scratch("moto") as folder:
        command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
        with running(Part("moto", command, partial(serves, port, "/moto-api/"), folder)):
            yield S3(port)


@contextmanager
def versitygw() -> Iterator[S3]:
    """Run an empty versitygw over a folder, where each bucket is a folder and each object a file."""
    port = free_port()
    with scratch(VERSITYGW) as folder:
        objects = folder / "objects"
        objects.mkdir()
        command = [str(versitygw_program()), "--port", f"{HOST}:{port}", "--region", REGION, "posix", str(objects)]
        keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": KEY}
        with running(Part(VERSITYGW, command, partial(serves, port, "/"), folder, keys)):
            yield S3(port, folder=objects)


def versitygw_program() -> Path:
    """Return where the cache keeps versitygw."""
    return cache.place(VERSITYGW, VERSITYGW_VERSION) / VERSITYGW


@contextmanager
def recorded(s3: S3) -> Iterator[list[str]]:
    """Yield a list that has the methods of all requests to moto after the block."""
    methods: list[str] = []
    _post(s3, "reset-recording")
    _post(s3, "start-recording")
    yield methods
    _post(s3, "stop-recording")
    methods += [json.loads(line)["method"] for line in _post(s3, "download-recording").splitlines()]


def _post(s3: S3, action: str) -> bytes:
    """Send a command to moto's recorder of requests."""
    connection = http.client.HTTPConnection(s3.host, s3.port, timeout=60)
    connection.request("GET" if action.startswith("download") else "POST", f"/moto-api/recorder/{action}")
    return connection.getresponse().read()
