"""What a rollup is, as the settings say it: which attributes each metric keeps, and how finely values are counted."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.rollup.exponential import scale_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.rollup.config import Kept, RollupConfig

FORM = 1  # of the rows; another number computes every window anew
SERVICE_NAME = "service.name"


@dataclass(frozen=True)
class Rule:
    """How metrics whose names match are rolled up."""

    metrics: str
    attributes: Kept
    resource_attributes: Kept
    quantiles: tuple[float, ...]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        escaped = re.escape(self.metrics).replace(r"\*", ".*").replace(r"\?", ".")
        return re.compile(escaped, re.DOTALL)

    def fits(self, metric: str) -> bool:
        """Whether a metric is this rule's."""
        return self._pattern.fullmatch(metric) is not None


@dataclass(frozen=True)
class Definition:
    """Rules, of which the last fits everything."""

    rules: tuple[Rule, ...]
    scale: int
    lookback_micros: int

    @classmethod
    def of(cls, config: RollupConfig) -> Definition:
        """The definition that the settings give."""
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
        """The number of the first rule that fits a metric."""
        return next(number for number, rule in enumerate(self.rules) if rule.fits(metric or ""))

    @property
    def fingerprint(self) -> str:
        """What changes whenever the rows would."""
        words = repr((FORM, [_plain(rule) for rule in self.rules], self.scale, self.lookback_micros))
        return hashlib.sha256(words.encode()).hexdigest()[:16]


def keeps(kept: Kept, name: str) -> bool:
    """Whether an attribute is kept.

    >>> keeps("all", "a"), keeps("none", "a"), keeps(("a", "b"), "a")
    (True, False, True)
    """
    return kept == "all" or (kept != "none" and name in kept)


def _plain(rule: Rule) -> tuple[object, ...]:
    return rule.metrics, _sorted(rule.attributes), _sorted(rule.resource_attributes), sorted(rule.quantiles)


def _sorted(kept: Kept) -> Iterable[str]:
    return kept if isinstance(kept, str) else sorted(kept)
