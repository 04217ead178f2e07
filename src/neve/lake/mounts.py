"""Which file system a path is on, and whether it is one that SQLite should not be on.

SQLite's locks, and the memory that its readers and writers share, are those of one machine. On a network file system
locks are often not kept, and a second machine sees neither: the file breaks. It is told and not refused, because one
machine alone may do well, and because the table of mounts can't tell who else uses the file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

MOUNTS = Path("/proc/self/mounts")
NETWORK = frozenset(
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
# File systems of programs: those of object storage and of other machines, by a part of their names.
PROGRAMS = re.compile(
    r"fuse\..*(s3|gcs|blob|goofys|rclone|sshfs|gluster|ceph|juicefs|davfs|alluxio|seaweed|mount-s3|nfs)"
)
REMEDY = "put the file on a disk of this machine, or use PostgreSQL"


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of file system that a path is on; empty where the machine does not tell."""
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


def is_network(kind: str) -> bool:
    """Whether a file system is on other machines.

    >>> [is_network(kind) for kind in ("nfs4", "fuse.s3fs", "fuse.mount-s3", "ext4", "overlay", "fuse.lxcfs", "")]
    [True, True, True, False, False, False, False]
    """
    return kind in NETWORK or bool(PROGRAMS.match(kind))


@cache
def warn_of_network(file: Path, key: str) -> None:
    """Log once that a file of SQLite is on a network file system; `key` is the setting that says where it is."""
    kind = file_system_of(file.resolve())
    if is_network(kind):
        log.warning("SQLite on a network file system", key=key, path=str(file), file_system=kind, remedy=REMEDY)
