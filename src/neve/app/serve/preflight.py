"""The preflight check of `neve serve`: Spark must suit the processes, and the lake must have tables."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from neve.app.serve.config import RECEIVER, WORKER
from neve.errors import TableMissing
from neve.lake.catalog import pyiceberg_properties
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection

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
    return None


def _check_catalog(lake: Lake) -> None:
    try:
        names = lake.table_names()
    except Exception as error:
        # Any error of the network or the server: each process that needs the catalog reports more details.
        log.warning("catalog does not respond, only the receiver works until it does", error=str(error))
        return
    if not names:
        log.warning(NO_TABLES, hint=INIT)
