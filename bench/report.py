"""How a benchmark says what it found: a table for people, one JSON line for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

Numbers = dict[str, float]


@dataclass
class Report:
    """Numbers of ours and of the baselines, with the unit in each key, and their ratios."""

    bench: str
    ours: Numbers = field(default_factory=dict)
    baselines: dict[str, Numbers] = field(default_factory=dict)
    ratios: Numbers = field(default_factory=dict)

    def show(self) -> None:
        """Print the table, then the JSON object as the last line."""
        print(f"\n{self.bench}")
        for name, numbers in {"ours": self.ours, **self.baselines}.items():
            print(f"  {name:<14} " + "  ".join(f"{key} {value:,.4g}" for key, value in numbers.items()))
        print("  ratios         " + "  ".join(f"{key} {value:.2f}" for key, value in self.ratios.items()))
        body = {"bench": self.bench, "ours": self.ours, "baselines": self.baselines, "ratios": self.ratios}
        print(json.dumps(_rounded(body)), flush=True)


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
