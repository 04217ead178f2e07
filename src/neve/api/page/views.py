"""Saved views: addresses of the page under short names, shared by the callers of one organization."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Route

from neve.api.query.endpoint import Endpoint, read_body
from neve.api.query.errors import Failure, json_response
from neve.api.query.models import Document, bad_request, format_value, read_model
from neve.api.query.operations import PREFIX, Operation

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from neve.app.control import Control
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

SPACE = "saved-views"
MAX_VIEWS = 200  # of an organization
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
EXPECTED_NAME = "1 to 64 small letters, digits and hyphens"


class View(BaseModel):
    """A view to save."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    address: str = Field(
        min_length=1, max_length=16_000, pattern=r"^/[a-z]", description="path and parameters of a screen: /logs?q=…"
    )


class ViewDocument(Document):
    """A saved view."""

    name: str
    address: str = Field(description="path and parameters of a screen")
    key_id: str = Field(description="key of the caller who saved it; empty if none is required")
    saved: datetime


class ViewsDocument(Document):
    """The saved views of an organization."""

    views: list[ViewDocument]


@dataclass(frozen=True)
class ViewEndpoints:
    """Handlers of saved views."""

    control: Control

    async def views(self, _request: Request, caller: Caller) -> Response:
        """Return all views of the organization, ordered by name."""
        found = await to_thread.run_sync(self._load, caller.organization)
        return json_response(ViewsDocument(views=found).plain)

    async def get(self, request: Request, caller: Caller) -> Response:
        """Return one view."""
        key = _key(caller, request)
        stored = await to_thread.run_sync(self.control.documents.get, SPACE, key)
        if stored is None:
            raise Failure(404, "not_found", f"there is no view {_name(request)!r}", hint="GET /api/v1/views lists all")
        return json_response(_view(key, stored).plain)

    async def save(self, request: Request, caller: Caller) -> Response:
        """Save a view, and replace one of the same name."""
        key = _key(caller, request)
        view = read_model(await read_body(request), View)
        saved = await to_thread.run_sync(self._save, caller, key, view.address)
        return json_response(saved.plain)

    async def delete(self, request: Request, caller: Caller) -> Response:
        """Delete a view; no effect if there is none."""
        await to_thread.run_sync(self.control.documents.delete, SPACE, _key(caller, request))
        return json_response(ViewsDocument(views=await to_thread.run_sync(self._load, caller.organization)).plain)

    def _load(self, organization: str) -> list[ViewDocument]:
        entries = self.control.documents.entries(SPACE, f"{organization}/")
        return [_view(key, stored) for key, stored in entries]

    def _save(self, caller: Caller, key: str, address: str) -> ViewDocument:
        held = {view.name for view in self._load(caller.organization)}
        if len(held) >= MAX_VIEWS and key.rpartition("/")[2] not in held:
            message = f"the organization has {MAX_VIEWS} saved views already"
            raise Failure(409, "too_many_views", message, hint="delete one: DELETE /api/v1/views/{name}")
        stored = {"address": address, "key_id": caller.key_id, "saved": self.control.documents.now().isoformat()}
        self.control.documents.put(SPACE, key, stored)
        return _view(key, stored)


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    if not NAME.fullmatch(name):
        raise bad_request(f"the name of a view is {format_value(name)}, expected {EXPECTED_NAME}")
    return name


def _key(caller: Caller, request: Request) -> str:
    """Return the key of a document; names of organizations and views contain no slash."""
    return f"{caller.organization}/{_name(request)}"


def _view(key: str, stored: Any) -> ViewDocument:
    return ViewDocument.model_validate({**stored, "name": key.rpartition("/")[2]})


BAD_NAME = (400, f"the name is wrong: expected {EXPECTED_NAME}")
VIEW_OPERATIONS = (
    Operation("get", "/views", "listViews", "Saved views of the organization", ViewsDocument),
    Operation(
        "get", "/views/{name}", "getView", "One saved view", ViewDocument, failures=(BAD_NAME, (404, "no such view"))
    ),
    Operation(
        "put",
        "/views/{name}",
        "saveView",
        "Save a view, and replace one of the same name",
        ViewDocument,
        body=View,
        failures=(BAD_NAME, (409, "the organization has too many views")),
    ),
    Operation("delete", "/views/{name}", "deleteView", "Delete a saved view", ViewsDocument, failures=(BAD_NAME,)),
)


def view_routes(control: Control, guard: Guard) -> list[Route]:
    """Return the routes of saved views."""
    paths = ViewEndpoints(control)
    return [
        Route(f"{PREFIX}/views", Endpoint(guard, {"GET": paths.views})),
        Route(
            f"{PREFIX}/views/{{name}}", Endpoint(guard, {"GET": paths.get, "PUT": paths.save, "DELETE": paths.delete})
        ),
    ]
