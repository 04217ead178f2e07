"""Put the dear parts into the user's cache: `python -m tests.parts.build [all | cheap | NAME …]`."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.parts import (
    alertmanager,
    cache,
    collector,
    golang,
    grafana,
    jars,
    kafka,
    kubernetes,
    loki,
    prometheus,
    promtool,
    rest_catalog,
    s3,
    tailsampler,
)
from tests.parts.command import CommandError
from tests.parts.jars import Artifact

KAFKA = (
    Artifact("org.apache.kafka", "kafka_2.13", kafka.VERSION),
    Artifact("org.apache.kafka", "kafka-tools", kafka.VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)
REST_CATALOG = (Artifact("org.apache.iceberg", rest_catalog.NAME, rest_catalog.VERSION, transitive=False),)
VERSITYGW = f"github.com/versity/versitygw/cmd/versitygw@v{s3.VERSITYGW_VERSION}"
CONTRIB = "github.com/open-telemetry/opentelemetry-collector-contrib"
TELEMETRYGEN = f"{CONTRIB}/cmd/telemetrygen@v{collector.TELEMETRYGEN_VERSION}"


@dataclass(frozen=True)
class Recipe:
    """How one part gets into its folder of the cache."""

    name: str
    folder: Path
    missing: Callable[[], str | None]
    make: Callable[[Path], None]
    hint: str
    cheap: bool = False


def recipes() -> tuple[Recipe, ...]:
    """Return every part that the cache can hold, the quick ones first."""
    fetch_kafka, fetch_catalog = partial(jars.fetch, KAFKA), partial(jars.fetch, REST_CATALOG)
    build_collector = partial(golang.build_collector, collector.MANIFEST, collector.VERSION)
    return (
        Recipe("rest-catalog", rest_catalog.jar().parent, jars.missing, fetch_catalog, "one jar, 212 MB", cheap=True),
        Recipe("kafka", kafka.jars(), jars.missing, fetch_kafka, "92 jars, 55 MB", cheap=True),
        Recipe("helm", kubernetes.helm().parent, _nothing_missing, kubernetes.make_helm, "17 MB", cheap=True),
        Recipe("schemas", kubernetes.schemas(), _nothing_missing, kubernetes.make_schemas, "23 MB", cheap=True),
        _go_program("versitygw", s3.versitygw_program().parent, VERSITYGW),
        _go_program("telemetrygen", collector.telemetrygen().parent, TELEMETRYGEN),
        Recipe("tailsampler", tailsampler.program().parent, golang.missing, tailsampler.make, "a Go build, minutes"),
        Recipe("prometheus", prometheus.program().parent, golang.missing, prometheus.make, "a Go build, minutes"),
        Recipe("promtool", promtool.program().parent, golang.missing, promtool.make, "a Go build, minutes"),
        Recipe("loki", loki.program().parent, golang.missing, loki.make, "a Go build, 11 minutes"),
        Recipe(grafana.NAME, grafana.program().parent, golang.missing, grafana.make, "a Go build, minutes"),
        Recipe("alertmanager", alertmanager.program().parent, golang.missing, alertmanager.make, "a Go build, minutes"),
        Recipe("collector", collector.program().parent, golang.missing, build_collector, "a Go build, minutes"),
    )


def make(recipe: Recipe) -> bool:
    """Make one part unless it is there or can't be made here, and say which; False when making it failed."""
    if recipe.folder.exists():
        _say(recipe, f"already in {recipe.folder}")
    elif reason := recipe.missing():
        _say(recipe, f"skipped: {reason}")
    else:
        return _fill(recipe)
    return True


def chosen(names: Sequence[str]) -> list[Recipe]:
    """Return the recipes that the names, `all` and `cheap` stand for."""
    return [each for each in recipes() if "all" in names or each.name in names or (each.cheap and "cheap" in names)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the parts that the command line names, `cheap` where it names none; 1 when any of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts.build", description="Put test parts into the cache.")
    names = ["all", "cheap", *(recipe.name for recipe in recipes())]
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(names))
    wanted = parser.parse_args(arguments).parts or ["cheap"]
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"unknown part: {', '.join(unknown)} (choose from {', '.join(names)})")
    made = [make(recipe) for recipe in chosen(wanted)]
    return 0 if all(made) else 1


def _nothing_missing() -> None:
    """Say that a part comes from PyPI, as the environment itself."""


def _go_program(name: str, folder: Path, module: str) -> Recipe:
    """Return the recipe of a program that is one Go module."""
    return Recipe(name, folder, golang.missing, partial(golang.install, module), "a Go build, minutes")


def _fill(recipe: Recipe) -> bool:
    """Make a part that is not there; False when that failed."""
    _say(recipe, f"making it ({recipe.hint}) in {recipe.folder}")
    start = time.monotonic()
    try:
        with cache.filling(recipe.folder) as draft:
            recipe.make(draft)
    except CommandError as error:
        _say(recipe, f"failed: {error}")
        return False
    _say(recipe, f"done in {time.monotonic() - start:.0f} s")
    return True


def _say(recipe: Recipe, text: str) -> None:
    """Tell the user at once what happens to a part."""
    sys.stdout.write(f"{recipe.name}: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
