"""`neve keys`: create, list, rotate and revoke API keys."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, org_option, print_json, print_table, print_text
from neve.cli.security.audit import record_change
from neve.cli.time_options import UntilParam

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.cli.context import Context
    from neve.state.keys import Key, Keys

SCOPES = ("write", "read", "announce", "admin", "metrics")
DEFAULT_SCOPES = ("write", "read")


@click.group(short_help="Create, list, rotate and revoke API keys.")
def keys() -> None:
    """Create, list, rotate and revoke API keys (each belongs to one organization)."""


@keys.command()
@click.option("--name", help="Purpose of the key, shown in lists.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=DEFAULT_SCOPES,
    help="Scope: write to send telemetry, read to query, announce to name files in watch.places for "
    "ingestion, admin to operate the whole lake, metrics to read health details and metrics. May "
    "be repeated.  [default: write and read]",
)
@click.option("--expires", type=UntilParam(), metavar="WHEN", help="Expiry: 90d, 12h or a time.  [default: never]")
@org_option
@json_option
@click.pass_obj
def create(
    context: Context,
    name: str | None,
    scopes: tuple[str, ...],
    expires: datetime | None,
    org: str | None,
    as_json: bool,
) -> None:
    """Create a key for an organization. It is shown once: Neve stores only a hash of it.

    \b
    Examples:
      neve keys create --name checkout-collector --scope write
      neve keys create --name dashboards --scope read
      neve keys create --name bucket-events --scope announce
      neve keys create --name on-call --scope admin --expires 90d
      neve keys create --name prometheus --scope metrics
      neve keys create --org acme --json
    """
    from neve.state.scopes import Scope

    with _open_keys(context) as store:
        wanted = [Scope(scope) for scope in scopes]
        key, text = store.create(context.organization(org), name or "", wanted, expires)
    facts = {"name": key.name, "scopes": ",".join(key.scopes), "expires_at": _format_iso(key.expires_at)}
    record_change(context, "key.create", key.id, organization=key.organization, **facts)
    if as_json:
        print_json({**_key_document(key), "key": text})
        return
    print_text(f"key {_format_key(key)} of organization {key.organization}, shown this once:\n\n   {text}\n")
    if key.expires_at:
        print_text(f"it expires at {_format_time(key.expires_at)} UTC")
    print_text(f"scopes: {', '.join(key.scopes)}; send it with each request:\n")
    print_text(f"   Authorization: Bearer {text}")
    if Scope.WRITE not in key.scopes:
        return
    print_text("\nand an OpenTelemetry Collector with these lines in its exporter:\n")
    print_text(f'   headers:\n     Authorization: "Bearer {text}"')


@keys.command("list")
@click.option("--org", metavar="NAME", help="Organization.  [default: all]")
@json_option
@click.pass_obj
def show(context: Context, org: str | None, as_json: bool) -> None:
    """List keys, oldest first, including revoked and expired ones. The time of last use is accurate to the hour."""
    with _open_keys(context) as store:
        found = store.list(context.organization(org) if org else None)
    if as_json:
        print_json([_key_document(key) for key in found])
        return
    if not found:
        print_text("there are no keys; create one with `neve keys create`")
        return
    columns = ("id", "organization", "name", "scopes", "created", "last used", "expires", "revoked")
    print_table(columns, [_row(key) for key in found])


@keys.command()
@click.argument("key_id", metavar="ID")
@json_option
@click.pass_obj
def revoke(context: Context, key_id: str, as_json: bool) -> None:
    """Revoke a key by its id. This can't be undone. Revoking a key twice has no effect.

    Servers reject it within receiver.key_seconds (2).
    """
    with _open_keys(context) as store:
        key, was_alive = store.revoke(key_id)
    if was_alive:
        record_change(context, "key.revoke", key.id, organization=key.organization, name=key.name)
    if as_json:
        print_json({**_key_document(key), "already_revoked": not was_alive})
        return
    when = "is revoked" if was_alive else f"was revoked before, at {_format_time(key.revoked_at)} UTC"
    print_text(f"key {_format_key(key)} of organization {key.organization} {when}")


@keys.command(short_help="Create a successor of a key, which then expires.")
@click.argument("key_id", metavar="ID")
@click.option("--grace", type=UntilParam(), default="7d", metavar="WHEN", help="End of the old key.  [default: 7d]")
@click.option("--expires", type=UntilParam(), metavar="WHEN", help="Expiry of the new key.  [default: never]")
@json_option
@click.pass_obj
def rotate(context: Context, key_id: str, grace: datetime, expires: datetime | None, as_json: bool) -> None:
    """Create a key with the organization, name and scopes of another one, which expires soon.

    Both are accepted until then, so that clients can change to the new one. It is shown once.

    \b
    Examples:
      neve keys rotate 0123456789ab
      neve keys rotate 0123456789ab --grace 1h --expires 90d --json
    """
    with _open_keys(context) as store:
        old, new, text = store.rotate(key_id, grace, expires)
    facts = {"new_key": new.id, "ends_at": _format_iso(old.expires_at), "expires_at": _format_iso(new.expires_at)}
    record_change(context, "key.rotate", old.id, old.organization, **facts)
    if as_json:
        print_json({**_key_document(new), "key": text, "replaces": _key_document(old)})
        return
    print_text(f"key {_format_key(new)} of organization {new.organization}, shown this once:\n\n   {text}\n")
    print_text(f"it replaces {old.id}, which expires at {_format_time(old.expires_at)} UTC")


@contextmanager
def _open_keys(context: Context) -> Iterator[Keys]:
    from neve.app.wiring import build_state
    from neve.state.keys import Keys

    state = build_state(context.settings)
    try:
        yield Keys(state)
    finally:
        state.close()


def _row(key: Key) -> tuple[str, ...]:
    moments = (key.created_at, key.last_used_at, key.expires_at, key.revoked_at)
    return (key.id, key.organization, key.name, ",".join(key.scopes), *(_format_time(moment) for moment in moments))


def _format_key(key: Key) -> str:
    return f"{key.id} ({key.name})" if key.name else key.id


def _key_document(key: Key) -> dict[str, Any]:
    moments = {
        name: _format_iso(getattr(key, name)) for name in ("created_at", "revoked_at", "last_used_at", "expires_at")
    }
    return vars(key) | moments | {"scopes": list(key.scopes)}


def _format_iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _format_time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
