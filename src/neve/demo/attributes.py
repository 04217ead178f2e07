"""Attributes: the kinds of values that the shop's telemetry carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
"""What an attribute holds: hashable, so that an encoder can keep the values that come again and again."""

Attributes: TypeAlias = Mapping[str, Value]

NOTHING: Attributes = MappingProxyType({})
"""No attributes at all; a default that nobody can change."""

Body: TypeAlias = "str | int | float | bool | Sequence[Body] | Mapping[str, Body]"
"""What a log record's body holds: a sentence, or a structure of any depth."""
