"""`neve autopilot run`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from neve.cli.autopilot_show import show_run, show_table
from neve.cli.output import complain, emit, json_option, note, progress, say_json

if TYPE_CHECKING:
    from neve.autopilot.report import RunReport
    from neve.cli.context import Context


@click.command()
@click.argument("tables", nargs=-1)
@click.option("--once", is_flag=True, help="Run now, once; then end.")
@click.option("--steal", is_flag=True, help="Take the leases of a run that is known to be dead.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    help="Serve Prometheus metrics there; 0: nowhere.  [default: autopilot.metrics_port]",
)
@json_option
@click.pass_obj
def run(
    context: Context, tables: tuple[str, ...], once: bool, steal: bool, metrics_port: int | None, as_json: bool
) -> None:
    """The nightly run: analyze, recommend, stage, try, propose, merge what is approved, and measure again.

    One table comes after the other, under a lease and a time limit; what the time does not allow for is gone on with by
    the next run. What fails is rolled back and kept in the history. Without --once it begins every day at
    autopilot.start_hour (UTC) until SIGTERM or Ctrl-C.

    \b
    Examples:
      neve autopilot run --once
      neve autopilot run --once spans logs
      neve autopilot run --metrics-port 9091
    """
    from neve.app.autopilot import build_nightly, open_pilot
    from neve.app.autopilot_loop import run_nightly
    from neve.autopilot.metrics import serving

    with ExitStack() as beside:
        bar = beside.enter_context(progress(enabled=once and not as_json))
        pilot = beside.enter_context(open_pilot(context.settings, context.lake, bar, steal=steal))
        port = pilot.config.metrics_port if metrics_port is None else metrics_port
        if port:
            address = pilot.config.metrics_address
            bound = beside.enter_context(serving(pilot.history, address, port))
            note(f"metrics on http://{address}:{bound}/metrics")
        nightly = build_nightly(pilot, (lambda _one: None) if as_json else show_table)
        if once:
            result = nightly.run(tables)
        else:
            run_nightly(
                nightly,
                tables,
                lambda found: _tell(found, as_json=as_json),
                lambda error: complain(error, as_json=as_json),
            )
            return
    if as_json:
        emit(result.as_document())
    else:
        show_run(result)
    if result.failed:
        raise click.exceptions.Exit(1)


def _tell(result: RunReport, *, as_json: bool) -> None:
    if as_json:
        say_json(result.as_document())
    else:
        show_run(result)
