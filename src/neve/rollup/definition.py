"""The definition of a rollup: the attributes that each metric keeps, the exactness of quantiles, and so the series."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.rollup.config import AttributeChoice, RollupConfig


FORM = 1  # version of the rows; another number recomputes every window


def scale_for(relative_error: float) -> int:
    """Return the coarsest scale at which the middle of a bucket is within the error of each value in it.

    >>> scale_for(0.01), scale_for(0.02)
    (6, 5)
    """
    base = (1 + relative_error) / (1 - relative_error)
    return math.ceil(-math.log2(math.log2(base)))


@dataclass(frozen=True)
class Rule:
    """Rule for the rollup of metrics whose names match."""

    metrics: str
    attributes: AttributeChoice
    resource_attributes: AttributeChoice
    quantiles: tuple[float, ...]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        escaped = re.escape(self.metrics).replace(r"\*", ".*").replace(r"\?", ".")
        return re.compile(escaped, re.DOTALL)

    def fits(self, metric: str) -> bool:
        """Return whether the rule applies to a metric."""
        return self._pattern.fullmatch(metric) is not None


@dataclass(frozen=True)
class Definition:
    """Rules, of which the last applies to every metric."""

    rules: tuple[Rule, ...]
    scale: int
    lookback_micros: int

    @classmethod
    def of(cls, config: RollupConfig) -> Definition:
        """Return the definition from the settings."""
        own = tuple(
            Rule(
                rule.metrics,
                config.attributes if rule.attributes is None else rule.attributes,
                config.resource_attributes if rule.resource_attributes is None else rule.resource_attributes,
                config.quantiles if rule.quantiles is None else rule.quantiles,
            )
            for rule in config.rules
        )
        rest = Rule("*", config.attributes, config.resource_attributes, config.quantiles)
        return cls((*own, rest), scale_for(config.relative_error), config.lookback_seconds * 1_000_000)

    def rule_of(self, metric: str | None) -> int:
        """Return the number of the first rule that applies to a metric."""
        return next(number for number, rule in enumerate(self.rules) if rule.fits(metric or ""))

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint that changes whenever the rows would change."""
        words = repr((FORM, [_comparable(rule) for rule in self.rules], self.scale, self.lookback_micros))
        return hashlib.sha256(words.encode()).hexdigest()[:16]


def keeps(kept: AttributeChoice, name: str) -> bool:
    """Return whether an attribute is kept.

    >>> keeps("all", "a"), keeps("none", "a"), keeps(("a", "b"), "a")
    (True, False, True)
    """
    return kept == "all" or (kept != "none" and name in kept)


def _comparable(rule: Rule) -> tuple[object, ...]:
    return rule.metrics, _sort_choice(rule.attributes), _sort_choice(rule.resource_attributes), sorted(rule.quantiles)


def _sort_choice(kept: AttributeChoice) -> Iterable[str]:
    return kept if isinstance(kept, str) else sorted(kept)
