"""Files that come from the values of the chart: `values.yaml`, `values.schema.json` and the page of values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from deploy.chart.values import S3_URL, ChartValues, Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

NOTICE = "made from deploy/chart/values.py by `make docs`"
INTRODUCTION = """
Values of the Helm chart `deploy/helm/neve`. [Kubernetes](kubernetes.md) shows how to use them. An unknown value is
rejected by `values.schema.json`.
"""


def render_schema() -> str:
    """Return the JSON schema of the values, with the rules that connect several of them."""
    schema = ChartValues.model_json_schema(by_alias=True)
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema["properties"]["global"] = {"type": "object", "description": "values of a parent chart, not used here"}
    schema["allOf"] = [*_mode_rules(), *_spark_rules()]
    return json.dumps(schema, indent=1) + "\n"


def _mode_rules() -> Iterator[dict[str, Any]]:
    """Pods share no disk, so that mode distributed needs object storage, a catalog server, a database and API keys."""
    closed = _properties(auth={"not": {"const": "open"}})
    yield {
        "if": _properties(mode={"const": "distributed"}),
        "then": _properties(
            lake=_properties(warehouse={"pattern": S3_URL}),
            raw=_properties(location={"pattern": S3_URL}),
            catalog=_properties(kind={"enum": ["postgres", "rest", "glue"]}),
            state=_properties(url={"pattern": "^postgresql://.+"}),
            config=_properties(receiver=closed, query=closed),
        ),
    }


def _spark_rules() -> Iterator[dict[str, Any]]:
    for mode, key in (("cluster", "master"), ("connect", "connect")):
        chosen = _properties(spark=_properties(mode={"const": mode}))
        yield {"if": chosen, "then": _properties(spark=_properties(**{key: {"minLength": 1}}))}


def _properties(**rules: object) -> dict[str, Any]:
    return {"properties": rules}


def render_values() -> str:
    """Return `values.yaml`: every value with its default, below its description."""
    return f"# Values of the chart, {NOTICE}.\n" + "\n".join(_yaml_lines(ChartValues(), "")) + "\n"


def _yaml_lines(section: BaseModel, indent: str) -> Iterator[str]:
    for name, field, value in _fields(section):
        yield f"{indent}# {field.description}"
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {json.dumps(value)}"


def render_page() -> str:
    """Return the page of values, a table for each section."""
    rows = list(_rows(ChartValues(), ""))
    head = "| Value | Default | Description |\n| --- | --- | --- |\n"
    lines = [f"| `{path}` | {f'`{default}`' if default else ''} | {text} |" for path, default, text in rows]
    notice = "<!-- Made from code by `make docs`. Change the code, not this page. -->"
    return f"{notice}\n\n# Values of the chart\n{INTRODUCTION}\n{head}" + "\n".join(lines) + "\n"


def _rows(section: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field, value in _fields(section):
        path, text = f"{prefix}{name}", (field.description or "").replace("|", "\\|")
        if isinstance(value, Values):
            yield path, "", f"**{text}**"
            yield from _rows(value, f"{path}.")
        else:
            yield path, json.dumps(value).replace("|", "\\|"), text


def _fields(section: BaseModel) -> Iterator[tuple[str, FieldInfo, object]]:
    for name, field in type(section).model_fields.items():
        yield field.alias or name, field, getattr(section, name)
