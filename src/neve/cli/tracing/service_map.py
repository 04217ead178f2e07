"""`neve map`: draw the calls between services as text, as a DOT graph or as an SVG image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from neve.cli.output import json_option, org_option, print_json, print_text
from neve.cli.time_options import TimeParam
from neve.errors import QueryError

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context


@click.command(short_help="Draw which services call which.")
@click.option("--since", type=TimeParam(ago=True), metavar="TIME", help="Calls from this time on.  [default: 1h ago]")
@click.option("--until", type=TimeParam(ago=True), metavar="TIME", help="Calls before this time.")
@click.option("--service", metavar="NAME", help="Only calls from and to this service.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "dot", "svg"]),
    default="text",
    show_default=True,
    help="Text, a graph for Graphviz, or an image.",
)
@json_option
@click.option("--server", metavar="ADDRESS", help="Read from a server, for example http://127.0.0.1:8480.")
@click.option("--key", envvar="NEVE_API_KEY", help="API key for the server.  [env: NEVE_API_KEY]")
@org_option
@click.pass_obj
def map(
    context: Context,
    since: datetime | None,
    until: datetime | None,
    service: str | None,
    form: str,
    as_json: bool,
    server: str | None,
    key: str | None,
    org: str | None,
) -> None:
    """Draw which services call which, how often, how many calls fail, and how long they take.

    Databases, queues and peers that send no spans are named by the attributes of their callers. The caller of a request
    from outside is `user`. Calls of sampled traces are scaled by their adjusted counts.

    \b
    Examples:
      neve map
      neve map --since 6h --service checkout
      neve map --format svg > map.svg
      neve map --format dot | dot -Tpng -o map.png
    """
    from datetime import timedelta

    from neve.cli.terminal.service_graph import draw_dot, draw_svg, draw_text
    from neve.lake.calendar import now_utc

    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key selects the organization",
            hint="omit --org, and pass a key of that organization with --key",
        )
    begin = since or (until or now_utc()) - timedelta(hours=1)
    if until is not None and begin >= until:
        raise QueryError("--until is not after --since, expected two times in their order")
    found = _read_remote(context, server, key, begin, until) if server else _read_local(context, org, begin, until)
    if service is not None:
        found["edges"] = [one for one in found["edges"] if service in (one["client"], one["server"])]
    if as_json:
        print_json(found)
        return
    draw = {"text": draw_text, "dot": draw_dot, "svg": draw_svg}[form]
    for line in draw(found):
        print_text(line)


def _read_local(context: Context, org: str | None, since: datetime, until: datetime | None) -> dict[str, Any]:
    from neve.app.query.service import build_query_service
    from neve.app.query.service_map import read_service_map
    from neve.query.engine_errors import planning_errors
    from neve.query.service import no_limits

    service = build_query_service(context.settings, context.lake, limits=no_limits)
    try:
        with planning_errors():
            return read_service_map(service, context.organization(org), since, until)
    finally:
        service.close()


def _read_remote(
    context: Context, server: str, key: str | None, since: datetime, until: datetime | None
) -> dict[str, Any]:
    from neve.cli.remote_client import RemoteClient

    given = {"since": since.isoformat(), **({"until": until.isoformat()} if until else {})}
    client = RemoteClient(server, key, context.settings.client)
    found: dict[str, Any] = client.get(f"/api/v1/services/edges?{urlencode(given)}")
    return found
