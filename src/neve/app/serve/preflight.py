"""The preflight check of `neve serve`: Spark must suit the processes, and the lake must have tables.

An embedded catalog gets a write-ahead log: queries read it several times a second while streams and jobs commit.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

from neve.app.serve.config import RECEIVER, WORKER
from neve.errors import TableMissing
from neve.lake.catalog import pyiceberg_properties, sqlite_path
from neve.local_folders import find_file_system, is_network_file_system
from neve.logger import get_logger
from neve.state.sqlite_documents import enable_wal

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from neve.lake.lake import Lake

EMBEDDED = "sqlite"
NO_TABLES, INIT = "the lake has no tables", "run `neve init`"

log = get_logger("neve.serve")


def check_lake(lake: Lake, processes: Collection[str]) -> threading.Thread | None:
    """Raise `TableMissing` if there are no tables and a process needs them; a receiver alone needs none.

    Raises `ConfigError` if streams and jobs would run behind Spark Connect, where each of them would fail.

    A group with a catalog server is started whether or not the server responds: its receiver needs no catalog, and its
    other processes are restarted until it does. The check then runs in the thread that is returned.
    """
    if set(processes) == {RECEIVER}:
        return None
    if WORKER in processes:
        lake.check_driver("the process for streams and jobs")
    if len(processes) > 1 and lake.catalog_config.kind != EMBEDDED:
        pyiceberg_properties(lake.catalog_config, lake.lake, lake.s3)  # raises `ConfigError`, which no retry can fix
        check = threading.Thread(target=_check_catalog, args=(lake,), name="check the catalog", daemon=True)
        check.start()
        return check
    if not lake.table_names():
        raise TableMissing(NO_TABLES, hint=INIT)
    if lake.catalog_config.kind == EMBEDDED:
        enable_concurrent_reads(sqlite_path(lake.catalog_config))
    return None


def enable_concurrent_reads(file: Path) -> None:
    """Give a SQLite catalog a write-ahead log, unless it is on a network: the log needs memory that processes share.

    Without it, a commit keeps all readers out while it syncs to the disk twice, and queries wait for that disk.
    """
    if is_network_file_system(find_file_system(file)):
        return
    try:
        with closing(sqlite3.connect(file)) as connection:
            enable_wal(connection)
    except sqlite3.Error as error:
        log.warning("the catalog has no write-ahead log, queries wait for commits", file=str(file), error=str(error))


def _check_catalog(lake: Lake) -> None:
    try:
        names = lake.table_names()
    except Exception as error:
        # Any error of the network or the server: each process that needs the catalog reports more details.
        log.warning("catalog does not respond, only the receiver works until it does", error=str(error))
        return
    if not names:
        log.warning(NO_TABLES, hint=INIT)
