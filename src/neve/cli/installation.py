"""`neve setup`, `neve completion` and `neve help`: download jars, complete commands in a shell, explain topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_text
from neve.text import format_count

if TYPE_CHECKING:
    from neve.cli.context import Context


@click.command(short_help="Download the jars that Spark needs.")
@click.option("--all", "every", is_flag=True, help="Also jars for S3, PostgreSQL and Kafka.  [default: as configured]")
@json_option
@click.pass_obj
def setup(context: Context, every: bool, as_json: bool) -> None:
    """Download the jars that Spark needs, for example into a container image. Safe to repeat.

    Otherwise the first command that starts Spark downloads them. They are stored in ~/.cache/neve (NEVE_CACHE names
    another folder) and verified by hash. After that, Neve needs no network for Spark.

    \b
    Examples:
      neve setup
      NEVE_CACHE=/opt/neve neve setup --all
    """
    from neve.lake.spark.jars import ALL, local_paths, select_jars
    from neve.lake.spark.java import find_java

    java = find_java()
    settings = context.settings
    paths = local_paths(ALL if every else select_jars(settings.catalog.kind, on_s3=settings.lake.on_s3))
    if as_json:
        print_json({"java": {"path": str(java.path), "version": java.version}, "jars": [str(path) for path in paths]})
        return
    print_text(f"Java {java.version} at {java.path}")
    print_text(f"{format_count(len(paths), 'jar')} in {paths[0].parent}")
    print_text("ready: `neve demo` shows what Neve does, `neve init` creates the tables of your own lake")


SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a script that completes commands with Tab.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script for the shell that completes commands and options with Tab.

    \b
    To install it:
      bash   echo 'eval "$(neve completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(neve completion zsh)"' >> ~/.zshrc
      fish   neve completion fish > ~/.config/fish/completions/neve.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    root = click.get_current_context().find_root().command
    source = found(root, {}, "neve", "_NEVE_COMPLETE")
    print_text(source.source_template % source.source_vars())  # `source()` would run the shell to learn its version


TOPICS = {  # lines of at most 80 columns
    "configuration": """\
Settings come from neve.yaml in the current folder, or from the file after -c.
A variable overrides a setting. Its name is NEVE_, the section, two underscores
and the key: NEVE_SPARK__MASTER=local[4] is the same as

  spark:
    master: local[4]

`neve doctor` checks the configuration. docs/configuration.md lists every
setting with its default.""",
    "environment": """\
NEVE_SECTION__KEY  a setting, see `neve help configuration`
NEVE_API_KEY       API key for --server
NEVE_CACHE         folder of downloaded jars  [default: ~/.cache/neve]
JAVA_HOME          Java 17 or later  [default: java on PATH]
PAGER              program for long output  [default: less]
COLUMNS            width of output that does not go to a terminal
NO_COLOR           no colours""",
    "exit-codes": """\
0    success
1    the command failed; the message is on standard error,
     with --json as {"error": …, "hint": …}
2    the command line is wrong
3    `neve ingest files`: files were ignored because their format is unknown
130  interrupted by Ctrl+C""",
    "formats": """\
Input    OTLP protobuf (.binpb, .pb) and JSON (.json), JSON lines, CSV, Parquet,
         log files; plain, .gz or .zst
Results  table, jsonl, csv, parquet, arrow (`neve query --format`), and plots as
         .png or .svg (`--plot -o FILE`)

`--json` prints JSON for programs, in every command that reports something.""",
    "queries": """\
Tables      spans, logs, metrics, and others that `neve query "SHOW TABLES"`
            lists. `neve query "DESCRIBE logs"` lists columns and comments.
Columns     timestamp, service_name, trace_id (also as hex text);
            logs: severity_number, message; spans: operation_name, duration_ms,
            status_code (2 is an error); metrics: metric_name, value
Attributes  attributes['http.route'], resource_attrs['host.name']
Times       timestamp > now() - INTERVAL 1 HOUR, or --since 1h
Words       has_term(message, 'exhausted') uses the full-text index
Languages   --promql, --logql and --traceql instead of SQL

`neve query` without SQL opens a prompt: \\? lists its commands.""",
    "times": """\
2026-01-31, 2026-01-31T08:30  a time; without a zone it is UTC
2026-01-31T08:30:00Z          a time with a zone
30m, 12h, 7d, 2w              as long ago (--since 7d)

Results of `neve query` have times in UTC. --tz Europe/Berlin, --tz local or
query.time_zone shows another zone.""",
}


@click.command(name="help")
@click.argument("words", nargs=-1, metavar="[TOPIC]…")
def help(words: tuple[str, ...]) -> None:
    """Explain a topic or a command; without one, list both.

    \b
    Examples:
      neve help times
      neve help compact plan
    """
    root = click.get_current_context().find_root()
    if not words:
        print_text(root.get_help())
        print_text("\nTopics:")
        print_text("  " + ", ".join(TOPICS))
    elif len(words) == 1 and words[0] in TOPICS:
        print_text(TOPICS[words[0]])
    else:
        print_text(_find_command(root, words).get_help())


def _find_command(context: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of a command, from which its help is made."""
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no topic or command {' '.join(words)!r}. Topics: {', '.join(TOPICS)}")
        context = click.Context(found, info_name=word, parent=context)
    return context
