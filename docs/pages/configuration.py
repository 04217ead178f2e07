"""The page of settings, from the pydantic tree."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from docs.pages import NOTICE
from docs.pages.markdown import code, codes, fence, page, table
from neve.app.configuration.given_values import CONFIG_FILE, NESTED, PREFIX

INTRODUCTION = f"""
Every key has a default, so that Neve runs without any configuration. Settings come from two places; the second wins:

1. The file `{CONFIG_FILE}` in the folder where a command is run, or the file that `--config` or `NEVE_CONFIG` names.
   A file that is named must exist.
2. Environment variables. The name of a variable is `{PREFIX}` and the key in capitals, with two underscores for each
   dot: `{PREFIX}SPARK{NESTED}MASTER` sets `spark.master`. A value that begins with `[` or `{{` is read as a list or a
   map in YAML or JSON. Any other value is taken as it is.

Both are checked before a command does anything. An unknown key, an unknown `{PREFIX}` variable and a value that is out
of bounds are refused, and the message names the key, the value and what was expected. Secrets are never printed.
Relative paths start from the folder where the command is run.
"""
EXAMPLE_FILE = """
organization: acme
lake:
  warehouse: s3://telemetry/lake
catalog:
  kind: postgres
  uri: postgresql://db.example.com:5432/catalog
  user: neve
s3:
  region: eu-central-1
  access_key: neve
spark:
  master: spark://spark.example.com:7077
  conf:
    spark.executor.memory: 4g
ingest:
  max_future_seconds: 3600
  fields:
    time: [when, timestamp]
"""
EXAMPLE_VARIABLES = """
export NEVE_CATALOG__PASSWORD="$(cat /run/secrets/catalog)"
export NEVE_S3__SECRET_KEY="$(cat /run/secrets/s3)"
export NEVE_SPARK__MASTER='local[4]'
export NEVE_INGEST__FIELDS__TIME='["when", "timestamp"]'
"""
NOT_KEYS = """
Two variables are about the process and are no keys:

| Variable | Meaning |
| --- | --- |
| `NEVE_CONFIG` | configuration file, where `--config` is not given |
| `NEVE_CACHE` | folder of fetched jars; by default `neve` in `XDG_CACHE_HOME`, or in `~/.cache` |
| `NEVE_OUTSIDE` | folder of public data for `make test-outside`; by default `outside` in the folder of the jars |
"""
HEADERS = ("Key and variable", "Type", "Default", "Meaning")
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true` or `false`"}
LISTED = "[]"  # stands for one of a list
UNITS = (("GiB", 1024**3), ("MiB", 1024**2))


@dataclass(frozen=True)
class Key:
    """One setting: its dotted name and what its JSON schema says of it."""

    path: tuple[str, ...]
    schema: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The key as it is written in prose."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + NESTED.join(self.path).upper()

    @property
    def secret(self) -> bool:
        """Whether its value must never be shown."""
        return self.schema.get("format") == "password"


def configuration_page(root: type[BaseModel]) -> str:
    """Every key of the tree, section by section."""
    top = table(HEADERS, map(_row, keys(root)))
    blocks = [_section(path, section) for path, section in sections(root)]
    example = (fence(EXAMPLE_FILE, "yaml"), fence(EXAMPLE_VARIABLES, "sh"))
    heading = ("# Configuration", INTRODUCTION, "## Example", *example)
    return page(NOTICE, *heading, "## Top level", top, *blocks, "## Variables that are no keys", NOT_KEYS)


def sections(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """The sections below a model, each with its path, in the order of the declaration."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield (*path, name), kind
            yield from sections(kind, (*path, name))
        elif item := _item(kind):
            yield (*path, name + LISTED), item


def _item(kind: Any) -> type[BaseModel] | None:
    """What a list of sections is a list of."""
    inner = next(iter(get_args(kind)), None)
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> list[Key]:
    """The keys of one section, without those of the sections below it."""
    below = {here[-1] for here, _section in sections(model)}
    schema = model.model_json_schema()
    found = {name: _resolved(schema["properties"][name], schema.get("$defs", {})) for name in model.model_fields}
    return [Key((*path, name), found[name]) for name in model.model_fields if name not in below]


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A key's schema with the choices that are defined elsewhere."""
    named = definitions.get(str(schema.get("$ref", "")).rsplit("/", 1)[-1], {})
    return (
        {**{key: value for key, value in schema.items() if key != "$ref"}, "enum": named["enum"]}
        if "enum" in named
        else schema
    )


def _section(path: tuple[str, ...], section: type[BaseModel]) -> str:
    about = inspect.cleandoc(section.__doc__ or "")
    return page(f"## {code('.'.join(path))}", about, table(HEADERS, map(_row, keys(section, path))))


def _row(key: Key) -> tuple[str, str, str, str]:
    name = code(key.name) if LISTED in key.name else f"{code(key.name)}<br>{code(key.variable)}"
    if key.secret:
        return name, "secret text", "not shown", key.schema["description"]
    return name, ", ".join([_type(key.schema), *_bounds(key.schema)]), _default(key), key.schema["description"]


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "sections, see below"
    if "anyOf" in schema:
        return ", or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return f"one of {codes(schema['enum'])}"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if schema["type"] == "object":
        return f"map of text to {_type(schema['additionalProperties'])}"
    return WORDS[schema["type"]]


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"{low} to {high}"
    elif low is not None:
        yield f"at least {low}"
    elif high is not None:
        yield f"at most {high}"
    if "minLength" in schema:
        yield f"at least {schema['minLength']} character" + ("s" if schema["minLength"] > 1 else "")
    if "pattern" in schema:
        yield f"matching {code(schema['pattern'])}"


def _default(key: Key) -> str:
    if "default" not in key.schema:
        return "must be given"
    default = key.schema["default"]
    if default is None or (isinstance(default, str | list | dict) and not default):
        return "empty"
    if isinstance(default, list):
        return codes(item if isinstance(item, str) else json.dumps(item) for item in default)
    plain = code(default if isinstance(default, str) else json.dumps(default))
    return plain + _in_units(default) if key.name.endswith("_bytes") else plain


def _in_units(count: int) -> str:
    """A number of bytes once more, in the largest unit that it is a whole number of.

    >>> _in_units(64 * 1024 * 1024), _in_units(1000)
    (' (64 MiB)', '')
    """
    return next((f" ({count // size} {unit})" for unit, size in UNITS if count and count % size == 0), "")
