"""`neve policies`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.controlling import controlling, user
from neve.cli.output import emit, json_option, note, say

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.work.policy_store import PolicyStore


@click.group()
def policies() -> None:
    """What applies to which tables: schedules, quiet hours, budgets.

    They stand in the configuration (policies, policies_folder). What is set here is kept in the state store, holds in
    the place of all of them for every `neve serve` of the lake, and is there to be cleared.

    \b
    Examples:
      neve policies show
      neve policies set policies.yaml
      neve policies clear
    """


@policies.command()
@json_option
@click.pass_obj
def show(context: Context, as_json: bool) -> None:
    """The policies that hold, as YAML that `neve policies set` takes, and where they come from.

    \b
    Example:
      neve policies show > policies.yaml
    """
    with controlling(context) as control:
        document = _document(control.policies)
    if as_json:
        emit(document)
        return
    import yaml

    note(f"{document['source']} (version {document['version']})")
    say(yaml.safe_dump({"policies": document["policies"]}, sort_keys=False, allow_unicode=True).rstrip())


@policies.command("set")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--if-version", metavar="VERSION", help="Only if those that hold have this version.  [default: whatever]")
@json_option
@click.pass_obj
def put(context: Context, file: str, if_version: str | None, as_json: bool) -> None:
    """Let the policies of a YAML file hold, all of them checked first.

    \b
    Examples:
      neve policies set policies.yaml
      neve policies set policies.yaml --if-version 7be5f0c1d2a39486
    """
    from pathlib import Path

    from neve.work.policies import Policies
    from neve.work.policy_files import read_file

    with controlling(context) as control:
        store = control.policies
        written = Policies(read_file(Path(file)), store.given.defaults)
        store.save(written, user(), if_version)
        for warning in written.warnings(control.lake.table_names()):
            note(f"warning: {warning}")
        _tell(store, as_json=as_json)


@policies.command()
@click.option("--if-version", metavar="VERSION", help="Only if those that hold have this version.  [default: whatever]")
@json_option
@click.pass_obj
def clear(context: Context, if_version: str | None, as_json: bool) -> None:
    """Let the policies of the configuration hold again.

    \b
    Example:
      neve policies clear
    """
    with controlling(context) as control:
        control.policies.clear(if_version)
        _tell(control.policies, as_json=as_json)


def _tell(store: PolicyStore, *, as_json: bool) -> None:
    document = _document(store)
    if as_json:
        emit(document)
        return
    names = [one["name"] for one in document["policies"]]
    say(f"{', '.join(names) or 'no policies'}: {document['source']} (version {document['version']})")


def _document(store: PolicyStore) -> dict[str, Any]:
    from neve.work.policy_store import version_of

    held = store.load()
    return {"source": store.source(), "version": version_of(held), "policies": held.plain}
