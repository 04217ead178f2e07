"""Tokens of a real identity provider at every door that takes keys."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc  # type: ignore[import-untyped]
import pytest

from neve.api.api_server import open_query_api
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.state.audit import AuditLog
from tests.api.conftest import loop_thread  # noqa: F401 - a fixture
from tests.api.querying import Client
from tests.api.running import JSON, PROTOBUF, LoopThread, settings_for
from tests.parts.identity_provider import identity_provider, missing
from tests.parts.process import free_port
from tests.query.attacks import CANARY, OWN, canary_lake, check_answer, check_door, fixed_attacks, named_attacks
from tests.query.lakes import ACME, OTHER
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from tests.parts.identity_provider import IdentityProvider

pytestmark = [pytest.mark.parts, pytest.mark.slow]
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
USERS = [
    {"sub": "writer", "organization": ACME, "roles": ["sender"]},
    {"sub": "reader", "organization": ACME, "roles": ["reader"]},
    {"sub": "stranger", "organization": OTHER, "roles": ["reader", "sender"]},
    {"sub": "operator", "organization": "operations", "roles": ["reader", "operator"]},
    {"sub": "homeless", "roles": ["reader", "sender"]},
    {"sub": "idle", "organization": ACME, "roles": ["janitor"]},
    {"sub": "everybody", "organization": "*", "roles": ["reader", "sender"]},
]
ROLES = {"reader": ["read"], "sender": ["write"], "operator": ["admin"]}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """The provider that is trusted."""
    if reason := missing():
        pytest.skip(reason)
    with identity_provider(USERS) as running:
        yield running


def oidc(provider: IdentityProvider) -> dict[str, Any]:
    """Return settings that trust a provider."""
    return {"issuer": provider.issuer, "audience": ["neve"], "roles": ROLES, "refresh_seconds": 1}


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": f"Bearer {token}"}


def with_tokens(folder: Path, provider: IdentityProvider, **receiver: Any) -> Settings:
    """Return the settings of a receiver that takes tokens."""
    values = settings_for(folder, auth="keys", key_seconds=0, **receiver).model_dump(exclude_unset=True)
    return Settings.model_validate({**values, "oidc": oidc(provider)})


def call(port: int, token: str) -> grpc.StatusCode:
    """Return the status of an export over gRPC."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            metadata = [("authorization", f"Bearer {token}")]
            channel.unary_unary(EXPORT)(traces(), metadata=metadata, timeout=600)
        except grpc.RpcError as error:
            found: grpc.StatusCode = error.code()
            return found
    return grpc.StatusCode.OK


@pytest.fixture
def start(loop_thread: LoopThread, tmp_path: Path) -> Iterator[Callable[..., Any]]:  # noqa: F811
    """Receivers that trust a provider."""
    with ExitStack() as stack:
        yield lambda provider, **receiver: stack.enter_context(
            loop_thread.receiver(tmp_path, with_tokens(tmp_path, provider, **receiver))
        )


def test_the_receiver_takes_tokens(start: Callable[..., Any], provider: IdentityProvider) -> None:
    """Over HTTP and gRPC, for the organization of the claim and within the scopes of the roles."""
    running = start(provider)
    writer, reader = provider.sign_in("writer"), provider.sign_in("reader")
    assert running.post("/v1/traces", traces(), PROTOBUF | bearer(writer)).status == 200
    assert call(running.grpc_port, writer) is grpc.StatusCode.OK
    assert {frame.organization_id for frame in running.frames()} == {ACME}
    reply = running.post("/v1/traces", b"{}", JSON | bearer(reader))
    assert (reply.status, reply.json["message"]) == (403, "this token lacks the scope `write` (it has: read)")
    assert call(running.grpc_port, reader) is grpc.StatusCode.PERMISSION_DENIED


def test_quotas_hold_for_subjects(start: Callable[..., Any], provider: IdentityProvider) -> None:
    """One subject that sends too much gets 429, another one of the same organization does not."""
    limits = [{"organization": OTHER, "key": "subject:stranger", "records_per_second": 1, "burst_seconds": 1}]
    running = start(provider, limits=limits)
    stranger = PROTOBUF | bearer(provider.sign_in("stranger"))
    assert running.post("/v1/traces", traces(3000), stranger).status == 200
    assert running.post("/v1/traces", traces(), stranger).status == 429
    assert running.post("/v1/traces", traces(), PROTOBUF | bearer(provider.sign_in("writer"))).status == 200


def test_refusals_have_reasons(start: Callable[..., Any], provider: IdentityProvider, tmp_path: Path) -> None:
    """Each over HTTP and gRPC, with a message about the token alone; the audit log counts them by reason."""
    running = start(provider)
    with identity_provider(USERS) as another:
        cases = {
            "the token is for another audience": provider.sign_in("writer", client="another"),
            "the signature of the token is wrong": another.sign_in("writer"),
            "the token lacks the claim `organization`": provider.sign_in("homeless"),
            "the claim `roles` of the token has no known role": provider.sign_in("idle"),
            "the claim `organization` of the token is not the name of one organization": provider.sign_in("everybody"),
            "the signature algorithm of the token is not accepted": "eyJhbGciOiJub25lIn0.e30.",
            "the token is not a JSON web token": "a.b.c",
        }
    for message, token in cases.items():
        reply = _retry(partial(running.post, "/v1/traces", b"{}", JSON | bearer(token)))
        assert (reply.status, reply.json["message"]) == (401, message)
        assert call(running.grpc_port, token) in {
            grpc.StatusCode.UNAUTHENTICATED,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        }
    assert running.frames() == []


def _retry(send: Callable[[], Any]) -> Any:
    reply = send()
    while reply.status == 429:
        time.sleep(0.2)
        reply = send()
    return reply


def test_expired_tokens_are_refused(
    loop_thread: LoopThread,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Of a provider whose tokens are over when they are issued; the audit log has the subject."""
    with identity_provider(USERS, token_seconds=-100) as late:
        settings = with_tokens(tmp_path, late)
        with loop_thread.receiver(tmp_path, settings) as running:
            reply = running.post("/v1/traces", b"{}", JSON | bearer(late.sign_in("writer")))
            assert (reply.status, reply.json["message"]) == (401, "the token has expired")
    entries = [entry for _space, entry in AuditLog(build_documents(settings)).waiting()]
    found = [(entry.action, entry.actor, entry.origin, entry.details["reason"]) for entry in entries]
    assert found == [("login.refuse", "subject writer", "127.0.0.1", "expired_token")]


def test_other_issuers_are_refused(
    loop_thread: LoopThread,  # noqa: F811
    tmp_path: Path,
    provider: IdentityProvider,
) -> None:
    """Also if its keys are known."""
    elsewhere = {**oidc(provider), "issuer": "http://localhost:1", "jwks_url": f"{provider.issuer}/jwks"}
    values = with_tokens(tmp_path, provider).model_dump(exclude_unset=True)
    with loop_thread.receiver(tmp_path, Settings.model_validate({**values, "oidc": elsewhere})) as running:
        reply = running.post("/v1/traces", b"{}", JSON | bearer(provider.sign_in("writer")))
        assert (reply.status, reply.json["message"]) == (401, "the token is of another issuer")


def test_rotated_signing_keys_are_found(
    loop_thread: LoopThread,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A provider that starts again has new keys: its tokens are accepted, and those of the old keys are not."""
    port = free_port()
    with identity_provider(USERS, port=port) as first:
        context = loop_thread.receiver(tmp_path, with_tokens(tmp_path, first))
        running = context.__enter__()
        old = first.sign_in("writer")
        assert running.post("/v1/traces", traces(), PROTOBUF | bearer(old)).status == 200
    try:
        with identity_provider(USERS, port=port) as second:
            new = second.sign_in("writer")
            reply = _retry(lambda: running.post("/v1/traces", traces(), PROTOBUF | bearer(new)))
            assert reply.status == 200
            assert _retry(lambda: running.post("/v1/traces", traces(), PROTOBUF | bearer(old))).status == 401
    finally:
        context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with a canary of another organization in every table."""
    return canary_lake(tmp_path_factory.mktemp("canary"))


@pytest.fixture(scope="module")
def api(
    loop_thread: LoopThread,  # noqa: F811
    lake: Lake,
    provider: IdentityProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Client]:
    """The whole API of that lake, which trusts the provider."""
    folder = tmp_path_factory.mktemp("api")
    settings = Settings.model_validate(
        {
            "lake": lake.lake.model_dump(),
            "catalog": lake.catalog_config.model_dump(),
            "state": {"path": str(folder / "state.db")},
            "query": {"auth": "keys", "port": 0, "threads": 1, "spark_bytes": 0, "cache_bytes": 0, "log": False},
            "oidc": oidc(provider),
        }
    )
    context = open_query_api(settings, lake)
    place: str = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop_thread.loop).result(600)
    yield Client(int(place.rpartition(":")[2]))
    asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop_thread.loop).result(600)


class TokenDoor:
    """The query API with the token of ACME."""

    def __init__(self, api: Client, token: str) -> None:
        self.api = api
        self.headers = JSON | bearer(token)

    def ask(self, statement: str) -> str:
        """Return the body of the answer."""
        body = json.dumps({"sql": statement}).encode("utf-8", "surrogatepass")
        return self.api.send("POST", "/api/v1/query", body, self.headers).body.decode()


def test_attacks_through_the_door_of_tokens(api: Client, lake: Lake, provider: IdentityProvider) -> None:
    """No statement of ACME's token returns a row of the other organization, whose own token does."""
    door = TokenDoor(api, provider.sign_in("reader"))
    assert OWN in door.ask("SELECT * FROM logs")
    assert check_door(door, [*fixed_attacks(), *named_attacks(lake)]) > 10
    assert CANARY in TokenDoor(api, provider.sign_in("stranger")).ask("SELECT * FROM logs")


SELECTOR = '{service_name=~".+"}'
PATHS = (
    "/api/v1/tables",
    "/api/v1/queries",
    "/prometheus/api/v1/labels",
    f"/prometheus/api/v1/query?query={quote('up')}",
    "/loki/api/v1/labels",
    f"/loki/api/v1/query_range?query={quote(SELECTOR)}",
    "/tempo/api/search/tags",
    "/jaeger/api/services",
    "/api/v1/sign-in",
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_takes_tokens(api: Client, provider: IdentityProvider, path: str) -> None:
    """With a token it answers, without one and with a bad one it does not, and never with a foreign row."""
    reply = api.send("GET", path, headers=bearer(provider.sign_in("reader")))
    assert reply.status == 200, reply.body
    check_answer(reply.body.decode())
    assert api.send("GET", path).status == 401
    assert api.send("GET", path, headers=bearer("a.b.c")).status == 401


def test_control_needs_the_role_of_operators(api: Client, provider: IdentityProvider) -> None:
    """The change is in the audit log with the subject."""
    body = json.dumps({"task": "compact", "tables": "*", "reason": "test"}).encode()
    reader, operator = provider.sign_in("reader"), provider.sign_in("operator")
    assert api.send("POST", "/api/v1/pauses", body, JSON | bearer(reader)).status == 403
    assert api.send("POST", "/api/v1/pauses", body, JSON | bearer(operator)).status in {200, 201}
    found = api.get("/audit?action=pause", bearer(operator)).json["entries"]
    assert [(entry["actor"], entry["origin"]) for entry in found] == [("subject operator", "127.0.0.1")]


def test_the_page_signs_in_with_a_token(api: Client, provider: IdentityProvider) -> None:
    """The cookie stands for the token, and is refused when it has signed out."""
    body = json.dumps({"key": provider.sign_in("reader")}).encode()
    reply = api.send("POST", "/api/v1/sign-in", body, JSON | {"sec-fetch-site": "same-origin"})
    assert (reply.status, reply.json["organization"], reply.json["key_id"]) == (200, ACME, "subject:reader")
    cookie = {"cookie": reply.headers["set-cookie"].partition(";")[0], "sec-fetch-site": "same-origin"}
    answer = api.send("POST", "/api/v1/query", b'{"sql": "SELECT * FROM logs"}', JSON | cookie).body.decode()
    assert OWN in answer
    check_answer(answer)
    assert api.send("DELETE", "/api/v1/sign-in", headers=cookie).status == 200
    assert api.send("POST", "/api/v1/query", b'{"sql": "SELECT 1"}', JSON | cookie).status in {401, 403}
