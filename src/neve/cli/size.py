"""`neve size`: estimate machines, requests, storage and dollars for a load."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, print_json, print_table, print_text
from neve.cli.time_options import parse_duration

if TYPE_CHECKING:
    from pathlib import Path

    from neve.app.operator.sizing import Need, SlopesConfig
    from neve.cli.context import Context

SIGNALS = ("logs", "metrics", "spans")


class MixParam(click.ParamType[dict[str, float]]):
    """Parts of the signals, `logs=20,metrics=25,spans=55`; only their proportion counts."""

    name = "mix"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        """Return the share of each signal."""
        if isinstance(value, dict):
            return value
        try:
            parts = {name.strip(): float(amount) for name, amount in (one.split("=") for one in value.split(","))}
        except ValueError:
            parts = {}
        total = sum(parts.values())
        if not parts or set(parts) - set(SIGNALS) or min(parts.values()) < 0 or not 0 < total < float("inf"):
            self.fail(f"{value!r} is not a mix of signals, expected one like logs=20,metrics=25,spans=55", param, ctx)
        return {signal: parts.get(signal, 0.0) / total for signal in SIGNALS}


class DaysParam(click.ParamType[float]):
    """A duration such as `30d` or `12h`, in days."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the days."""
        try:
            length = parse_duration(value)
        except OverflowError:
            length = None
        if length is None:
            self.fail(f"{value!r} is not a duration, expected one like 30d, 12h or 52w", param, ctx)
        return length.total_seconds() / 86_400


@click.command(short_help="Estimate cores, storage and dollars for a load.")
@click.option(
    *("--records-per-second", "-r", "rate"),
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    metavar="N",
    help="Log records, metric points and spans per second.",
)
@click.option(
    *("--signal-mix", "mix"),
    type=MixParam(),
    default="logs=20,metrics=25,spans=55",
    metavar="PARTS",
    show_default=True,
    help="Proportion of the signals.",
)
@click.option(
    *("--retention",),
    type=DaysParam(),
    default="30d",
    metavar="TIME",
    show_default=True,
    help="Time to keep records.",
)
@click.option("--organizations", type=click.IntRange(1), default=1, show_default=True, help="Number of organizations.")
@click.option(
    *("--commit-seconds",),
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="Seconds between two commits of a stream.",
)
@click.option(
    *("--headroom",),
    type=click.FloatRange(1),
    default=2.0,
    show_default=True,
    help="Cores for each busy core, for peaks and failures.",
)
@click.option("--slopes", type=click.Path(), metavar="FILE", help="JSON file with your own measured costs.")
@json_option
@click.pass_obj
def size(
    context: Context,
    rate: float,
    mix: dict[str, float],
    retention: float,
    organizations: int,
    commit_seconds: float,
    headroom: float,
    slopes: str | None,
    as_json: bool,
) -> None:
    """Estimate cores, Kafka partitions, storage requests, bytes and dollars for a load.

    Every number is arithmetic over measured costs for each record, and shows its reason. Prices are the settings
    prices.* of this lake. Nothing is started or read from the lake.

    \b
    Examples:
      neve size -r 10000
      neve size -r 100000 --signal-mix logs=70,metrics=20,spans=10 --retention 90d --organizations 50
      neve size -r 1000000 --slopes measured.json --json
    """
    from pathlib import Path

    from neve.app.operator.sizing import Load, SlopesConfig, size_load, total_busy_cores, total_dollars

    load = Load(
        rate,
        metrics_share=mix["metrics"],
        spans_share=mix["spans"],
        logs_share=mix["logs"],
        organizations=organizations,
        retention_days=retention,
        commit_seconds=commit_seconds,
        headroom=headroom,
    )
    costs = _read_slopes(Path(slopes)) if slopes else SlopesConfig()
    needs = size_load(load, costs, context.settings.prices)
    if as_json:
        totals = {"busy_cores": total_busy_cores(needs), "dollars_month": total_dollars(needs)}
        given = {"load": asdict(load), "slopes": costs.model_dump()}
        print_json({**given, **totals, "needs": [asdict(need) for need in needs]})
        return
    _print_needs(needs)
    print_text(f"{total_busy_cores(needs):.2f} cores are busy on average, of all parts together")
    print_text(f"about ${total_dollars(needs):,.0f} a month by the configured prices")


def _print_needs(needs: list[Need]) -> None:
    rows = [(need.part, need.name, _format_amount(need), _format_cost(need), need.reason) for need in needs]
    print_table(("part", "needs", "amount", "a month", "reason"), rows, right=(2, 3))


def _format_amount(need: Need) -> str:
    from neve.text import format_bytes

    return format_bytes(need.amount) if need.unit == "bytes" else f"{need.amount:,.0f}"


def _format_cost(need: Need) -> str:
    from neve.text import format_dollars

    return format_dollars(need.dollars_month) if need.dollars_month else ""


def _read_slopes(path: Path) -> SlopesConfig:
    """Read measured costs. Raises `ConfigError` with the key, the value and what was expected."""
    import json

    from pydantic import ValidationError

    from neve.app.operator.sizing import SlopesConfig
    from neve.errors import ConfigError

    try:
        return SlopesConfig.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"can't read the costs {path}: {error.strerror}") from error
    except ValueError as error:
        found = error.errors()[0] if isinstance(error, ValidationError) else None
        problem = (
            f"{'.'.join(map(str, found['loc'])) or 'the document'}: {found['msg'].lower()}" if found else str(error)
        )
        known = ", ".join(SlopesConfig.model_fields)
        raise ConfigError(f"the costs {path} are not valid: {problem}", hint=f"the keys are {known}") from error
