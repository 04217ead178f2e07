"""Find the process that listens on a port, for the hint of an error. Linux shows it for processes of the same user."""

from __future__ import annotations

from pathlib import Path

LISTENING = "0A"  # state of a socket in /proc/net/tcp
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def describe_port_owner(port: int) -> str:
    """Return the name and the pid of the process that listens on a port, or an empty text if it is not known."""
    try:
        sockets = {f"socket:[{inode}]" for table in TABLES for inode in _list_inodes(Path(table), port)}
        pid = next((process for process in _list_processes() if sockets and _holds(process, sockets)), None)
        if pid is None:
            return ""
        name = (pid / "comm").read_text(errors="replace").strip()  # arguments may have credentials
    except OSError:  # no /proc, or the process has ended
        return ""
    return f"{name} (pid {pid.name})"


def _list_inodes(table: Path, port: int) -> list[str]:
    if not table.exists():
        return []
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _list_processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def _holds(process: Path, sockets: set[str]) -> bool:
    """Return whether a process has one of some sockets open. Those of other users can't be read."""
    try:
        return any(str(link.readlink()) in sockets for link in (process / "fd").iterdir())
    except OSError:
        return False
