"""A look at the lake before anything is started: whether there is one to tend and to ask."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.choice import RECEIVER
from neve.errors import TableMissing
from neve.lake.catalog import pyiceberg_properties

if TYPE_CHECKING:
    from collections.abc import Collection

    from neve.lake.lake import Lake

EMBEDDED = "sqlite"
NO_TABLES, INIT = "the lake has no tables", "run `neve init`"

log = structlog.get_logger("neve.serve")


def look_at_lake(lake: Lake, processes: Collection[str]) -> threading.Thread | None:
    """Raises `TableMissing` where there are no tables and someone needs them; a receiver alone needs none.

    A group with the catalog of a server is started whether or not it answers: its receiver needs no catalog, and its
    other processes are started again until it does. The look is then taken beside it, by the thread that is returned.
    """
    if set(processes) == {RECEIVER}:
        return None
    if len(processes) > 1 and lake.catalog_config.kind != EMBEDDED:
        pyiceberg_properties(lake.catalog_config, lake.lake, lake.s3)  # raises `ConfigError` for what no wait mends
        look = threading.Thread(target=_look, args=(lake,), name="look at the lake", daemon=True)
        look.start()
        return look
    if not lake.table_names():
        raise TableMissing(NO_TABLES, hint=INIT)
    return None


def _look(lake: Lake) -> None:
    try:
        names = lake.table_names()
    except Exception as error:
        # Whatever it is, of the network or the server: each process that needs the catalog says more of it.
        log.warning("catalog does not answer: only the receiver works until it does", error=str(error))
        return
    if not names:
        log.warning(NO_TABLES, hint=INIT)
