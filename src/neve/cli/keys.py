"""`neve keys`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import emit, json_option, org_option, say, table
from neve.cli.since import Until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.cli.context import Context
    from neve.lake.keys import Key, Keys

SCOPES = ("write", "read", "announce", "admin", "metrics")
DEFAULT_SCOPES = ("write", "read")


@click.group()
def keys() -> None:
    """API keys: make, list and revoke what those who send and ask prove their organization with."""


@keys.command()
@click.option("--name", help="What the key is for, to tell it from others.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=DEFAULT_SCOPES,
    help="What the key is good for: write to send telemetry, read to query, announce to name files in watch.places "
    "that are to be ingested, admin to operate the whole lake, metrics to see health details and metrics. May be "
    "repeated.  [default: write and read]",
)
@click.option("--expires", type=Until(), metavar="WHEN", help="When it expires: 90d, 12h or a time.  [default: never]")
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
    """Make a key for an organization. It is shown once: Neve keeps only a hash of it.

    \b
    Examples:
      neve keys create --name checkout-collector --scope write
      neve keys create --name dashboards --scope read
      neve keys create --name bucket-events --scope announce
      neve keys create --name on-call --scope admin --expires 90d
      neve keys create --name prometheus --scope metrics
      neve keys create --org acme --json
    """
    from neve.lake.scopes import Scope

    with _keys(context) as store:
        wanted = [Scope(scope) for scope in scopes]
        key, text = store.create(context.organization(org), name or "", wanted, expires)
    if as_json:
        emit({**_for_programs(key), "key": text})
        return
    say(f"key {_called(key)} of organization {key.organization}, shown this once:\n\n   {text}\n")
    if key.expires_at:
        say(f"it expires at {_short(key.expires_at)} UTC")
    say(f"it may {' and '.join(key.scopes)}; pass it with each request:\n")
    say(f"   Authorization: Bearer {text}")
    if Scope.WRITE not in key.scopes:
        return
    say("\nand an OpenTelemetry Collector with these lines in its exporter:\n")
    say(f'   headers:\n     Authorization: "Bearer {text}"')


@keys.command("list")
@click.option("--org", metavar="NAME", help="Organization.  [default: all]")
@json_option
@click.pass_obj
def show(context: Context, org: str | None, as_json: bool) -> None:
    """List the keys, the oldest first, with revoked and expired ones. When one was last used is known to the hour."""
    with _keys(context) as store:
        found = store.list(context.organization(org) if org else None)
    if as_json:
        emit([_for_programs(key) for key in found])
        return
    if not found:
        say("there are no keys; `neve keys create` makes one")
        return
    columns = ("id", "organization", "name", "scopes", "created", "last used", "expires", "revoked")
    table(columns, [_row(key) for key in found])


@keys.command()
@click.argument("key_id", metavar="ID")
@json_option
@click.pass_obj
def revoke(context: Context, key_id: str, as_json: bool) -> None:
    """Revoke a key, by its id. There is no way back; a key that was revoked before stays as it was.

    Servers refuse it within receiver.key_seconds (2).
    """
    with _keys(context) as store:
        key, was_alive = store.revoke(key_id)
    if as_json:
        emit({**_for_programs(key), "already_revoked": not was_alive})
        return
    when = "is revoked" if was_alive else f"was revoked before, at {_short(key.revoked_at)} UTC"
    say(f"key {_called(key)} of organization {key.organization} {when}")


@contextmanager
def _keys(context: Context) -> Iterator[Keys]:
    from neve.app.wiring import build_state
    from neve.lake.keys import Keys

    state = build_state(context.settings)
    try:
        yield Keys(state)
    finally:
        state.close()


def _row(key: Key) -> tuple[str, ...]:
    moments = (key.created_at, key.last_used_at, key.expires_at, key.revoked_at)
    return (key.id, key.organization, key.name, ",".join(key.scopes), *(_short(moment) for moment in moments))


def _called(key: Key) -> str:
    return f"{key.id} ({key.name})" if key.name else key.id


def _for_programs(key: Key) -> dict[str, Any]:
    moments = {name: _iso(getattr(key, name)) for name in ("created_at", "revoked_at", "last_used_at", "expires_at")}
    return vars(key) | moments | {"scopes": list(key.scopes)}


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _short(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
