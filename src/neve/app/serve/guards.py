"""Guards of the service's ports: the callers that each port accepts, by the settings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from neve.app.wiring import build_documents
from neve.model.settings import is_loopback
from neve.receive.authentication import KeyGuard, OpenGuard

if TYPE_CHECKING:
    from contextlib import AsyncExitStack, ExitStack

    from neve.app.settings import Settings
    from neve.identity.tokens import TokenVerifier
    from neve.receive.authentication import Guard
    from neve.state.audit import RefusedLogins
    from neve.state.documents import Documents
    from neve.state.sessions import Sessions


def build_guard(settings: Settings, parts: AsyncExitStack) -> Guard:
    """Build the guard that checks the API keys of clients."""
    if settings.receiver.auth == "open":
        return OpenGuard(settings.organization)
    return keys_guard(settings, parts, "receiver")


def health_guard(settings: Settings, parts: ExitStack | AsyncExitStack) -> Guard:
    """Build the guard of the health port: callers on this machine see all of it, others need a key."""
    if is_loopback(settings.serve.host):
        return OpenGuard(settings.organization)
    return keys_guard(settings, parts, "health")


def session_guard(
    settings: Settings, documents: Documents, parts: ExitStack | AsyncExitStack
) -> tuple[KeyGuard, Sessions]:
    """Build the guard that checks API keys and sessions of browsers, and the sessions."""
    from neve.state.keys import Keys  # noqa: PLC0415 - SQLAlchemy, for those who have keys
    from neve.state.sessions import Sessions  # noqa: PLC0415
    from neve.state.store import StateStore  # noqa: PLC0415

    state = StateStore(settings.state)
    parts.callback(state.close)
    sessions = Sessions(documents, Keys(state), timedelta(hours=settings.query.session_hours))
    refused = _count_refusals(documents, "query", parts)
    tokens = _build_token_verifier(settings)
    return KeyGuard(sessions, settings.receiver.key_seconds, tokens=tokens, refused=refused), sessions


def keys_guard(settings: Settings, parts: ExitStack | AsyncExitStack, port: str) -> Guard:
    """Build the guard that checks API keys in the state store, which is closed with `parts`."""
    from neve.state.keys import Keys  # noqa: PLC0415 - SQLAlchemy, for those who have keys
    from neve.state.store import StateStore  # noqa: PLC0415

    state = StateStore(settings.state)
    parts.callback(state.close)
    documents = build_documents(settings)
    parts.callback(documents.close)
    refused = _count_refusals(documents, port, parts)
    tokens = _build_token_verifier(settings)
    return KeyGuard(Keys(state), settings.receiver.key_seconds, tokens=tokens, refused=refused)


def _build_token_verifier(settings: Settings) -> TokenVerifier | None:
    """Return the verifier of tokens; none if no identity provider is set."""
    if not settings.oidc.issuer:
        return None
    from neve.identity.tokens import TokenVerifier  # noqa: PLC0415 - for those who have a provider

    return TokenVerifier(settings.oidc)


def _count_refusals(documents: Documents, port: str, parts: ExitStack | AsyncExitStack) -> RefusedLogins:
    """Count refused logins for the audit log; the rest is stored when `parts` is closed."""
    from neve.state.audit import AuditLog, RefusedLogins  # noqa: PLC0415 - for those who have keys

    refused = RefusedLogins(AuditLog(documents), port)
    parts.callback(refused.close)
    return refused
