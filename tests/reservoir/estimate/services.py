"""A sample of twenty-odd services and the full data behind it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.reservoir.estimate.draws import priority

NAMES = (
    *("checkout", "payments-gateway-europe-west-1-production-blue", "cart", "frontend", "ad", "recommendation"),
    *("product-catalog", "shipping", "currency", "email", "quote", "fraud-detection", "accounting", "kafka"),
    *("image-provider", "load-generator", "flagd", "otel-collector", "postgres", "valkey", "$a$ \x1b[2J", None),
)


def services(seed: int = 4) -> tuple[pa.Table, pa.Table]:
    """A sample by service and window, and the truth."""
    rng = np.random.default_rng(seed)
    samples, truths = [], []
    for name, records in zip(NAMES, np.exp(rng.normal(6.5, 1.0, len(NAMES))).astype(int) + 60, strict=True):
        for window in range(2):
            value = np.exp(rng.normal(3.0, 1.0, records))
            found = priority(np.ones(records), 1, int(rng.integers(1 << 30)), kept=30).table(value=value)
            edges = {"window_start": window, "window_end": window + 1}
            for column, minute in edges.items():
                found = found.append_column(column, pa.array([minute * 60_000_000_000] * found.num_rows))
            group = pa.array([name] * found.num_rows, pa.string())
            samples.append(found.set_column(found.column_names.index("group"), "group", group))
            full = {"group": pa.array([name] * records, pa.string()), "count": np.ones(records), "value": value}
            truths.append(pa.table(full))
    return pa.concat_tables(samples), pa.concat_tables(truths)
