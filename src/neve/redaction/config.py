"""Settings of redaction: rules for attribute keys and for patterns in texts, checked at start."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from neve.model.settings import ORGANIZATION_PATTERN, Section
from neve.model.signals import Signal  # noqa: TC001 - pydantic reads it

MIN_SALT = 16  # characters
MAX_RULES = 200

Action = Literal["drop", "hash", "mask"]


class RuleConfig(Section):
    """One rule. It has either `keys` or a `pattern`."""

    keys: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = Field(
        (),
        description="attribute keys whose values are redacted, at any depth; `*` matches any characters, and upper "
        "and lower case make no difference",
    )
    pattern: str = Field(
        "",
        max_length=4096,
        description="regular expression (RE2) of texts to redact, in bodies, values, names, keys and all other strings",
    )
    action: Action = Field(
        "mask",
        description="drop: remove the attribute or the matched text; hash: replace it by a keyed hash, equal for equal "
        "texts; mask: replace it by ***",
    )
    organizations: tuple[Annotated[str, Field(pattern=ORGANIZATION_PATTERN)], ...] = Field(
        (), description="organizations that the rule applies to; empty: all"
    )
    signals: tuple[Signal, ...] = Field((), description="logs, metrics or traces; empty: all")

    @field_validator("pattern")
    @classmethod
    def _linear_pattern(cls, value: str) -> str:
        if not value:
            return value
        try:
            is_empty_match = pc.match_substring_regex(pa.array([""]), value)[0].as_py()
        except pa.ArrowInvalid as error:
            raise ValueError(f"should be a regular expression of RE2: {error}") from None
        if is_empty_match:
            raise ValueError("should be a regular expression that does not match the empty text")
        return value

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if bool(self.keys) == bool(self.pattern):
            raise ValueError("should have either keys or a pattern")
        return self

    def applies_to(self, organization: str, signal: Signal) -> bool:
        """Return whether the rule concerns messages of an organization and a signal."""
        return (not self.organizations or organization in self.organizations) and (
            not self.signals or signal in self.signals
        )


class RedactionConfig(Section):
    """Redaction of records before they are stored."""

    rules: tuple[RuleConfig, ...] = Field(
        (),
        max_length=MAX_RULES,
        description="rules; the first one that has a key applies to it, and every pattern applies",
    )
    salt: SecretStr = Field(
        SecretStr(""),
        description=f"secret of at least {MIN_SALT} characters for the action hash; with another salt equal texts have "
        "other hashes",
    )

    @field_validator("salt")
    @classmethod
    def _salt_for_hashes(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        has_hashes = any(rule.action == "hash" for rule in info.data.get("rules", ()))
        if has_hashes and len(value.get_secret_value()) < MIN_SALT:
            raise ValueError(f"should have at least {MIN_SALT} characters, because a rule has the action hash")
        return value

    def select(self, organization: str, signal: Signal) -> tuple[RuleConfig, ...]:
        """Return the rules for messages of an organization and a signal."""
        return tuple(rule for rule in self.rules if rule.applies_to(organization, signal))

    def concerns(self, organization: str) -> bool:
        """Return whether any rule applies to an organization."""
        return any(not rule.organizations or organization in rule.organizations for rule in self.rules)
