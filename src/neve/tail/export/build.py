"""Destinations of a configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.tail.export.config import Kind
from neve.tail.export.datadog import Datadog
from neve.tail.export.iceberg import IcebergTable
from neve.tail.export.otlp_files import OtlpFiles
from neve.tail.export.otlp_grpc import OtlpGrpc
from neve.tail.export.otlp_http import OtlpHttp

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.tail.export.config import DestinationConfig
    from neve.tail.export.port import Destination


def build(config: DestinationConfig, lake: Lake) -> Destination:
    """The destination that a section of the configuration describes; nothing is reached before it is used."""
    if config.ca_file and not os.access(config.ca_file, os.R_OK):
        raise ConfigError(
            f"the destination {config.name} has ca_file {config.ca_file}, which can't be read",
            hint="it is a file of certificates in PEM; without it the system's are trusted",
        )
    match config.kind:
        case Kind.OTLP_HTTP:
            return OtlpHttp(config)
        case Kind.OTLP_GRPC:
            return OtlpGrpc(config)
        case Kind.DATADOG:
            return Datadog(config)
        case Kind.OTLP_FILES:
            return OtlpFiles(config, lake.s3)
        case Kind.ICEBERG:
            return IcebergTable(config, lake)
