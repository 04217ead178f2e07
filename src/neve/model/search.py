"""The table that full-text search looks into before it opens a file."""

import pyarrow as pa

from neve.model.columns import METRICS_PREFIX, TARGET_FILE_SIZE_BYTES, TIMESTAMP, Column, Table

FILE_SIZE_BYTES = 64 * 1024 * 1024  # 64 MB: a look-up reads whole row groups

SEARCH_INDEX = Table(
    name="search_index",
    comment="which words the texts of a data file may hold: one row a file, column and range of rows, made by "
    "`neve search build`",
    columns=(
        Column("organization_id", pa.string(), "tenant that the data file belongs to", required=True),
        Column("table_name", pa.string(), "table that the data file belongs to", required=True),
        Column("file_path", pa.string(), "the data file", required=True),
        Column("column_name", pa.string(), "column whose texts are indexed", required=True),
        Column("first_row", pa.int64(), "place of the range's first row in the file, from 0", required=True),
        Column("row_count", pa.int64(), "rows of the range", required=True),
        Column("words", pa.int64(), "distinct words of the range", required=True),
        Column("form", pa.int32(), "how words and filters are made; rows of another form are made anew", required=True),
        Column(
            "filter", pa.binary(), "split-block Bloom filter of XXH3-64 of the words, after a byte with its version"
        ),
        Column("built_at", TIMESTAMP, "when the row was made", required=True),
    ),
    partition=(("organization_id", "identity"), ("table_name", "identity")),
    sort=("file_path", "column_name", "first_row"),
    bounded=("organization_id", "table_name", "file_path", "column_name"),
    # Paths begin alike: 16 characters of them would tell nothing.
    properties={METRICS_PREFIX + "file_path": "full", TARGET_FILE_SIZE_BYTES: str(FILE_SIZE_BYTES)},
)
