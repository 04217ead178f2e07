"""Paths that tell: the lake's tables, what comes next, who tends it, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.api.control.asked import HistoryAsked, read_query
from neve.api.control.documents import HistoryDocument, LakeTablesDocument, PartsDocument
from neve.api.query.replies import json_reply
from neve.app.reports import ServePartReport

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from neve.api.control.door import Threads
    from neve.app.control import Control
    from neve.lake.scopes import Caller


@dataclass(frozen=True)
class LakePaths:
    """What is looked at, and never changed."""

    control: Control
    threads: Threads

    async def status(self, _request: Request, _caller: Caller) -> Response:
        """How everything is now."""
        return json_reply((await self.threads.run(self.control.status)).plain)

    async def tables(self, _request: Request, _caller: Caller) -> Response:
        """Every table with its health."""
        return json_reply(LakeTablesDocument(tables=await self.threads.run(self.control.tables)).plain)

    async def table(self, request: Request, _caller: Caller) -> Response:
        """One table, its partitions and its plan."""
        name: str = request.path_params["name"]
        return json_reply((await self.threads.run(lambda: self.control.reports.detail(name))).plain)

    async def plan(self, _request: Request, _caller: Caller) -> Response:
        """What would be done next."""
        return json_reply((await self.threads.run(self.control.outlook)).plain)

    async def parts(self, _request: Request, _caller: Caller) -> Response:
        """The parts of every `neve serve`."""
        found = await self.threads.run(self.control.board.all)
        return json_reply(PartsDocument(parts=[ServePartReport.model_validate(one) for one in found]).plain)

    async def history(self, request: Request, _caller: Caller) -> Response:
        """What was done."""
        asked = read_query(request, HistoryAsked)
        runs = await self.threads.run(lambda: self.control.past.of(asked.table, asked.limit))
        return json_reply(HistoryDocument(runs=runs).plain)
