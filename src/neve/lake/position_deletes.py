"""Files that mark rows of one data file as deleted."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.locations import load_location_provider

from neve.lake.content import bare_content
from neve.lake.fields import FIELD_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from neve.lake.content import Content
    from neve.lake.writer import Target

PATH_ID, POSITION_ID = 2147483546, 2147483545  # as Iceberg reserves them
SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(PATH_ID).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_ID).encode()}),
    ]
)


def write_deletes(
    target: Target, path: str, positions: npt.NDArray[np.int64], spec_id: int, partition: Sequence[object]
) -> Content:
    """Mark rows of a data file, given by their rising positions in it; nothing happens before it is committed."""
    provider = load_location_provider(
        table_location=target.metadata.location, table_properties=target.metadata.properties
    )
    place = provider.new_data_location(f"{uuid.uuid4()}-deletes.parquet", None)
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * len(positions), pa.int32()), [path]).cast(pa.string())
    rows = pa.table([paths, pa.array(positions)], schema=SCHEMA)
    output = target.io.new_output(place)
    with output.create() as sink:
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
    name = path.encode().hex().upper()
    return {
        **bare_content(place, "parquet", spec_id, partition, len(output), len(positions)),
        "content": "position-deletes",
        "referenced-data-file": path,
        "lower-bounds": {"keys": [PATH_ID], "values": [name]},
        "upper-bounds": {"keys": [PATH_ID], "values": [name]},
    }
