"""Files of this machine: private folders, temporary files of secrets, a warning for SQLite on network file systems.

Temporary files hold rows of every organization, and cached jars become code. A folder for them is used only if it
is a real folder, not a link, owned by the user of this process and writable for nobody else. A parent folder that
others may write to (such as /tmp) must be sticky, or they could rename what is in it.

SQLite's locks, and the memory that its readers and writers share, work on one machine only. Network file systems
often do not keep locks, and a second machine sees neither, so the file gets corrupted. This is a warning and not an
error, because one machine alone may work, and because the table of mounts does not list other users of the file.
"""

from __future__ import annotations

import atexit
import os
import re
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = 0o700
GROUP_WRITES, OTHERS_WRITE = stat.S_IWGRP, stat.S_IWOTH


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for the user of this process alone.

    An existing folder keeps its mode.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            path.mkdir(mode=PRIVATE)


def find_permission_fault(folder: Path, *, group_may_write: bool = False) -> str:
    """Return the reason why a folder can't be trusted, or an empty text if it can."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return "it does not exist"
    if not stat.S_ISDIR(found.st_mode):
        return "it is a link" if stat.S_ISLNK(found.st_mode) else "it is not a folder"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}"
    if found.st_mode & (OTHERS_WRITE if group_may_write else GROUP_WRITES | OTHERS_WRITE):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):04o})"
    around = folder.parent.stat().st_mode
    if around & OTHERS_WRITE and not around & stat.S_ISVTX:
        return f"others may rename it: {folder.parent} has mode {stat.S_IMODE(around):04o} and is not sticky"
    return ""


def check_private_folder(folder: Path, key: str, *, group_may_write: bool = False) -> None:
    """Raise `ConfigError` if others could have written to a folder or still can; `key` is the setting to change."""
    fault = find_permission_fault(folder, group_may_write=group_may_write)
    if fault:
        raise ConfigError(
            f"{key} is {str(folder)!r}: {fault}; expected a folder that only user {os.geteuid()} may write to",
            hint=f"`chown` and `chmod go-w` it, remove it, or set {key} to a folder of your own",
        )


@cache
def user_folder(name: str) -> str:
    """Return a private temporary folder of the user, the same for all processes of the user.

    Its name can be guessed, so another user may have created it before. Then this process gets a folder with a random
    name.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"
    make_private_folder(folder)
    return tempfile.mkdtemp(prefix=f"{folder.name}-") if find_permission_fault(folder) else str(folder)


_secret_files: set[Path] = set()
_writing_secrets = threading.Lock()
LOCK_SECONDS = 1.0


@contextmanager
def write_secret_file(text: str, prefix: str, suffix: str) -> Iterator[Path]:
    """Write a temporary file that only this user can read. It is removed after the block, or at the end of the process.

    A daemon thread does not leave its blocks when the process ends.
    """
    with _writing_secrets:
        number, name = tempfile.mkstemp(prefix=prefix, suffix=suffix)  # mode 0600
        path = Path(name)
        _secret_files.add(path)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)
        _secret_files.discard(path)


def remove_secret_files() -> None:
    """Remove the files that are in use. Call it before `os._exit`, which calls no exit handler.

    The lock stays taken: no thread writes another file until the process has ended.
    """
    _writing_secrets.acquire(timeout=LOCK_SECONDS)  # another thread may also be ending the process
    for path in list(_secret_files):
        with suppress(OSError):
            path.unlink(missing_ok=True)


atexit.register(remove_secret_files)


MOUNTS = Path("/proc/self/mounts")
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "gfs",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
        ),
        *("ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "virtiofs"),
    }
)
# FUSE file systems on object storage or on other machines, by a part of their names.
NETWORK_FUSE_PROGRAMS = re.compile(
    r"fuse\..*(s3|gcs|blob|goofys|rclone|sshfs|gluster|ceph|juicefs|davfs|alluxio|seaweed|mount-s3|nfs)"
)
NETWORK_HINT = "put the file on a disk of this machine, or use PostgreSQL"


def find_file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system of a path, or an empty text if the machine does not report it."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    inner, kind = -1, ""
    for fields in map(str.split, lines):
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1]))
        if path.is_relative_to(point) and len(point.parts) >= inner:
            inner, kind = len(point.parts), fields[2]
    return kind


def is_network_file_system(kind: str) -> bool:
    """Return whether a type of file system is on other machines.

    >>> kinds = ("nfs4", "fuse.s3fs", "fuse.mount-s3", "ext4", "overlay", "fuse.lxcfs", "")
    >>> [is_network_file_system(kind) for kind in kinds]
    [True, True, True, False, False, False, False]
    """
    return kind in NETWORK_FILE_SYSTEMS or bool(NETWORK_FUSE_PROGRAMS.match(kind))


@cache
def warn_network_file_system(file: Path, key: str) -> None:
    """Log once that an SQLite file is on a network file system; `key` is the setting of its location."""
    kind = find_file_system(file.resolve())
    if is_network_file_system(kind):
        log = get_logger(__name__)
        log.warning("SQLite on a network file system", key=key, path=str(file), file_system=kind, remedy=NETWORK_HINT)
