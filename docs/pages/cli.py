"""The page of commands, from the click tree."""

import inspect
import re
from collections.abc import Iterator

import click

from docs.pages import NOTICE
from docs.pages.markdown import code, codes, fence, page, table

INTRODUCTION = """
Every command has `-h` and `--help`. Exit codes: 0 for success, 1 with a message on standard error for a failure, 2 for
a wrong command line, and 130 for an interrupted command. Settings come from
[neve.yaml and NEVE_ variables](configuration.md). An option overrides its setting.
"""
SAID_DEFAULT = re.compile(r"\s*\[default: (?P<default>.+)\]\s*$")
PREFORMATTED = ("\b", r"\b")  # click's mark, also where a raw docstring spells it out


def cli_page(root: click.Command) -> str:
    """Every command of the tree, each with its arguments, options and help."""
    sections = [_section(context) for context in contexts(root)]
    return page(NOTICE, "# Commands", INTRODUCTION, *sections)


def contexts(command: click.Command, parent: click.Context | None = None) -> Iterator[click.Context]:
    """A context for each command that is not hidden, the root first, in the order of `--help`."""
    context = click.Context(command, parent=parent, info_name=command.name)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from contexts(child, context)


def _section(context: click.Context) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return page(
        f"## {code(context.command_path)}",
        fence(usage, "text"),
        *_paragraphs(command.help or ""),
        _children(context),
        _arguments(context),
        _options(context),
    )


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        marked, _, rest = paragraph.partition("\n")
        yield _block(rest) if marked.strip(" ") in PREFORMATTED else paragraph


def _block(text: str) -> str:
    """A preformatted paragraph: a title over lines that are shown as they are."""
    title, _, lines = text.partition("\n")
    return page(title, fence(inspect.cleandoc("\n" + lines), "sh"))


def _children(context: click.Context) -> str:
    command = context.command
    if not isinstance(command, click.Group):
        return ""
    found = (command.get_command(context, name) for name in command.list_commands(context))
    rows = [
        (f"[{code(f'{context.command_path} {child.name}')}](#{_anchor(context, child)})", child.get_short_help_str(200))
        for child in found
        if child is not None and not child.hidden
    ]
    return table(("Command", "Description"), rows)


def _anchor(context: click.Context, child: click.Command) -> str:
    return f"{context.command_path} {child.name}".replace(" ", "-")


def _arguments(context: click.Context) -> str:
    arguments = [param for param in context.command.params if isinstance(param, click.Argument)]
    rows = [(code(argument.human_readable_name), _how_many(argument)) for argument in arguments]
    return table(("Argument", "Count"), rows)


def _how_many(argument: click.Argument) -> str:
    if argument.nargs == -1:
        return "one or more" if argument.required else "any number"
    number = str(argument.nargs) if argument.required else "0 or 1"
    return f"{number}: {codes(argument.type.choices)}" if isinstance(argument.type, click.Choice) else number


def _options(context: click.Context) -> str:
    options = [param for param in context.command.params if isinstance(param, click.Option) and not param.hidden]
    return table(("Option", "Value", "Default", "Description"), [_option(option) for option in options])


def _option(option: click.Option) -> tuple[str, str, str, str]:
    said = SAID_DEFAULT.search(option.help or "")
    help_text = SAID_DEFAULT.sub("", option.help or "")
    default = said["default"] if said else _default(option)
    return codes([*option.opts, *option.secondary_opts]), _value(option), default, help_text


def _default(option: click.Option) -> str:
    if option.is_flag:
        return "off"
    default = option.to_info_dict()["default"]
    return "none" if default is None else code(default)


NAMES = {"float range": "number"}  # of Click's types, for readers


def _value(option: click.Option) -> str:
    """The value of an option, in words."""
    match option.type:
        case _ if option.is_flag:
            return ""
        case click.Choice(choices=choices):
            return codes(choices)
        case click.IntRange(min=low, max=high):
            return f"whole number, {low} " + ("or more" if high is None else f"to {high}")
        case click.Path():
            return "path"
        case kind:
            return code(option.metavar) if option.metavar else NAMES.get(kind.name, kind.name)
