"""Rows on their way from the wire to a table: decoded columns that still know their envelope."""

from dataclasses import dataclass

import pyarrow as pa

from neve.otlp.batch import Rejected
from neve.otlp.digest import Digests
from neve.otlp.envelope import Envelope

Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Rows:
    """The columns that belong to the records themselves, one row for each record of the envelope."""

    columns: Columns
    envelope: Envelope
    digests: Digests
    rejected: tuple[Rejected, ...]
    duplicate_keys: int
    pointless_metrics: int = 0
