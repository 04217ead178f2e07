"""Destinations as users write them: what fits no kind is refused by its key, and secrets stay secret."""

from typing import Any

import pytest
from pydantic import ValidationError

from neve.errors import ConfigError
from neve.lake.lake import Lake
from neve.tail.config import KEYS_BY_KIND, SHARED_KEYS, Compression, DestinationConfig, DestinationKind, ExportConfig
from neve.tail.export.exporter import build_destination

WORKING: dict[DestinationKind, dict[str, Any]] = {
    DestinationKind.OTLP_HTTP: {
        "endpoint": "https://collector:4318/otlp",
        "headers": {"authorization": "Bearer s3cret"},
    },
    DestinationKind.OTLP_GRPC: {"endpoint": "http://collector:4317", "compression": "none"},
    DestinationKind.DATADOG: {"endpoint": "http://localhost:8126"},
    DestinationKind.OTLP_FILES: {"folder": "s3://bucket/kept", "format": "json", "compression": "zstd"},
    DestinationKind.ICEBERG: {},
}


def section(kind: str, **fields: Any) -> dict[str, Any]:
    """A section as YAML gives it."""
    return {"name": "there", "kind": kind, **fields}


def said_of(values: dict[str, Any]) -> str:
    """What is said of a section that is wrong."""
    with pytest.raises(ValidationError) as caught:
        DestinationConfig.model_validate(values)
    return str(caught.value.errors(include_input=False, include_url=False))


@pytest.mark.parametrize("kind", list(DestinationKind))
def test_every_kind_can_be_built(kind: DestinationKind) -> None:
    """From as little as it needs; nothing is reached before it is used."""
    there = build_destination(DestinationConfig.model_validate(section(kind, **WORKING[kind])), Lake())
    assert there.name == "there"
    there.close()


@pytest.mark.parametrize("kind", list(DestinationKind))
def test_a_key_of_another_kind_is_refused(kind: DestinationKind) -> None:
    """By its name, with those that the kind has."""
    keys = [key for key in DestinationConfig.model_fields if key not in (*SHARED_KEYS, *KEYS_BY_KIND[kind])]
    for key in keys:
        default = DestinationConfig.model_fields[key].default
        value = default if default != "" else "/x" if key != "endpoint" else "http://x"
        said = said_of(section(kind, **WORKING[kind], **{key: value}))
        assert f"should not have {key}: the kind {kind} has only name, kind" in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (section("otlp_http"), "should have endpoint, which the kind otlp_http needs"),
        (section("otlp_files"), "should have folder, which the kind otlp_files needs"),
        (section("otlp_http", endpoint="collector:4318"), "should be http://host:port"),
        (section("otlp_http", endpoint="http://collector:0x"), "should be http://host:port"),
        (section("otlp_http", endpoint="http://me:pw@collector"), "secrets belong into headers"),
        (section("otlp_grpc", endpoint="http://c:4317/x"), "without a path"),
        (section("otlp_grpc", endpoint="http://c:4317", compression="zstd"), "gRPC has no zstd"),
        (section("otlp_files", folder="gs://bucket"), "should be a folder or an s3:// prefix"),
        (section("otlp_http", endpoint="http://c", headers={"content-type": "x"}), "which Neve sets itself"),
        (section("otlp_http", endpoint="http://c", headers={"a b": "x"}), "should have names of letters"),
        (section("otlp_http", endpoint="http://c", timeout_seconds=0), "greater than 0"),
        (section("otlp_http", endpoint="http://c", batch_spans=0), "greater than or equal to 1"),
        (section("otlp_http", endpoint="http://c", endpont="http://c"), "Extra inputs are not permitted"),
        (section("kafka"), "otlp_http"),
        ({**section("iceberg"), "name": "Über"}, "name"),
    ],
)
def test_what_is_wrong_is_said(values: dict[str, Any], said: str) -> None:
    """The key and what was expected."""
    assert said in said_of(values)


def test_secrets_are_not_said() -> None:
    """Neither by a section nor by an error about one."""
    good = DestinationConfig.model_validate(section("otlp_http", **WORKING[DestinationKind.OTLP_HTTP]))
    assert "s3cret" not in repr(good) + good.model_dump_json()
    assert good.plain_headers == {"authorization": "Bearer s3cret"}
    assert "s3cret" not in said_of(section("otlp_http", endpoint="http://c", headers={"key": "s3cret\n"}))


def test_names_are_distinct() -> None:
    """A cursor is kept under the name."""
    twice = [section("iceberg"), section("datadog", endpoint="http://c")]
    with pytest.raises(ValidationError, match="should have distinct names, got there more than once"):
        ExportConfig.model_validate({"destinations": twice})
    assert ExportConfig().destinations == ()


def test_packing_is_what_the_kind_usually_has() -> None:
    """Unless it is said otherwise."""
    packings = {
        kind: DestinationConfig.model_validate(section(kind, **WORKING[kind])).packing for kind in (*DestinationKind,)
    }
    assert packings[DestinationKind.OTLP_HTTP] is Compression.GZIP
    assert packings[DestinationKind.DATADOG] is Compression.NONE
    assert packings[DestinationKind.OTLP_FILES] is Compression.ZSTD


def test_certificates_that_are_not_there_are_said_at_the_start() -> None:
    """Not when the first trace was kept."""
    values = section("otlp_http", endpoint="https://c", ca_file="/nowhere/ca.pem")
    with pytest.raises(ConfigError, match=r"there has ca_file /nowhere/ca\.pem, which can't be read"):
        build_destination(DestinationConfig.model_validate(values), Lake())
