"""Secrets are never in an error, a representation, a dump, or what the doctor says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from neve.app.doctor import examine
from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_lake
from neve.errors import ConfigError

SECRET = "hunter2"  # noqa: S105 - a secret that is not one
CLOSED = "127.0.0.1:9"  # nobody listens there
KEYS = (
    "catalog.password",
    "catalog.token",
    "catalog.credential",
    "s3.secret_key",
    "state.password",
    "state.documents_password",
    "ingest.redaction.salt",
    "watch.sqs.secret_key",
    "autopilot.logs.trino.password",
    "autopilot.logs.clickhouse.password",
    "autopilot.stage.nessie.token",
    "autopilot.stage.lakefs.secret_key",
    "autopilot.propose.token",
    "telemetry.key",
)


def secret_fields(model: type[BaseModel], path: str = "") -> list[str]:
    """Every key of the tree that holds a secret."""
    found = []
    for name, field in model.model_fields.items():
        if field.annotation is SecretStr:
            found.append(path + name)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += secret_fields(field.annotation, f"{path}{name}.")
    return found


def with_secrets(**catalog: str) -> Settings:
    """Settings in which every secret has a value."""
    environment = {f"NEVE_{key.replace('.', '__').upper()}": SECRET for key in KEYS}
    return load_settings(None, environment | {f"NEVE_CATALOG__{key.upper()}": item for key, item in catalog.items()})


def said_of(tmp_path: Path, text: str) -> str:
    """The error of a file."""
    path = tmp_path / "neve.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(str(path), {})
    return str(caught.value)


def test_every_key_that_sounds_secret_is_one() -> None:
    """A new key of that kind can't be forgotten."""
    assert tuple(secret_fields(Settings)) == KEYS


@pytest.mark.parametrize(
    "show",
    [repr, str, Settings.model_dump_json, lambda settings: str(settings.model_dump()), lambda s: repr(build_lake(s))],
)
def test_a_secret_is_not_shown(show: Callable[[Any], str]) -> None:
    """Nor does the lake that is built of them show it; the value is there for those who ask."""
    settings = with_secrets()
    assert SECRET not in show(settings)
    assert settings.s3.secret_key.get_secret_value() == SECRET


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [f"[{SECRET}]", f"{{a: {SECRET}}}"])
def test_a_bad_secret_is_not_said(tmp_path: Path, key: str, value: str) -> None:
    """Its key and what was expected are."""
    opening, closing = key.replace(".", ": {"), "}" * key.count(".")
    said = said_of(tmp_path, f"{opening}: {value}{closing}\n")
    assert SECRET not in said
    assert f"{key}: got ********, which should be a valid string" in said


def test_a_text_in_the_place_of_secrets_is_not_said(tmp_path: Path) -> None:
    """Headers hold secrets, also where someone wrote them as one line."""
    place = f"{{name: a, kind: otlp_http, endpoint: 'http://127.0.0.1', headers: 'authorization={SECRET}'}}"
    said = said_of(tmp_path, f"tail: {{export: {{destinations: [{place}]}}}}")
    assert "tail.export.destinations.0.headers: got ********" in said
    assert SECRET not in said


def test_the_value_of_an_unknown_key_is_not_said(tmp_path: Path) -> None:
    """It may be a secret under a misspelt key."""
    assert SECRET not in said_of(tmp_path, f"s3: {{secret_kye: {SECRET}}}")


@pytest.mark.parametrize("text", [f"s3:\n  - secret_key: {SECRET}\n", f"catalog: [{{password: {SECRET}}}]\n"])
def test_a_section_of_the_wrong_shape_is_not_said(tmp_path: Path, text: str) -> None:
    """One dash too many must not print the password."""
    assert SECRET not in said_of(tmp_path, text)


@pytest.mark.parametrize("value", [f'"{SECRET}', f"{SECRET}: x", f"*{SECRET}"])
def test_a_line_that_is_not_yaml_is_not_quoted(tmp_path: Path, value: str) -> None:
    """Where it is says enough: a password with a quote or a colon is the usual reason."""
    said = said_of(tmp_path, f"s3:\n  secret_key: {value}\n")
    assert "line 2" in said
    assert SECRET not in said


@pytest.mark.parametrize(
    "catalog",
    [
        {"kind": "sqlite"},
        {"kind": "postgres", "uri": f"postgresql://{CLOSED}/lake", "user": "neve"},
        {"kind": "postgres", "uri": f"postgresql://neve:{SECRET}@{CLOSED}/lake"},
        {"kind": "rest", "uri": f"http://{CLOSED}/"},
        {"kind": "rest", "uri": f"ftp://neve:{SECRET}@{CLOSED}/"},
    ],
    ids=lambda catalog: f"{catalog['kind']} {catalog.get('uri', '').split(':')[0]}".strip(),
)
def test_the_doctor_keeps_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: dict[str, str]) -> None:
    """Whether the catalog can be reached or not, and where the user put the password into the address."""
    monkeypatch.chdir(tmp_path)
    settings = with_secrets(**catalog)
    findings = list(examine(settings, build_lake(settings), config_file="neve.yaml"))
    assert {"catalog", "tables"} <= {finding.what for finding in findings}
    assert SECRET not in json.dumps([vars(finding) for finding in findings])


def test_the_doctor_does_not_say_a_password_in_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL takes a password as a parameter of the address, too."""
    monkeypatch.chdir(tmp_path)
    settings = with_secrets(kind="postgres", uri=f"postgresql://{CLOSED}/lake?password={SECRET}")
    lake = build_lake(settings)
    lake.__dict__["catalog"] = _Reachable()
    findings = list(examine(settings, lake, config_file="neve.yaml"))
    assert [finding.status for finding in findings if finding.what == "catalog"] == ["ok"]
    assert SECRET not in str(findings)


class _Reachable:
    """A catalog that answers."""

    def list_namespaces(self) -> list[tuple[str, ...]]:
        """No namespaces."""
        return []

    def list_tables(self, _namespace: str) -> list[tuple[str, ...]]:
        """No tables."""
        return []
