"""Interpretation of the collector's policies."""

from enum import StrEnum


class Semantics(StrEnum):
    """Interpretation to use if the collector's documentation and its code differ."""

    DOCUMENTED = "documented"
    OTELCOL = "otelcol"
