"""Keys that Neve writes into snapshot summaries, and the table properties that repeat some of them."""

BATCH_ID = "neve.batch-id"
OPERATION = "neve.operation"
VERSION = "neve.version"
RECORDS = "neve.records"
REJECTED = "neve.rejected"
SOURCE_BYTES = "neve.source-bytes"
SOURCE_FILES = "neve.source-files"
DUPLICATES = "neve.duplicates"
REPEATS = "neve.repeats"  # in a commit of spans: number of rows of `span_repeats` with the same batch id
STREAM = "neve.stream"
POSITIONS = "neve.positions"
WINDOWS = "neve.windows"

POSITIONS_PROPERTY = "neve.positions."  # followed by the name of the stream
BATCHES_PROPERTY = "neve.batches"
ERASED_PROPERTY = "neve.erased-at"  # milliseconds since 1970: when earlier snapshots were expired by an erasure

SERIES = "series"  # name of the stream that keeps the tables of series current
TRACES = "traces"  # name of the stream that keeps trace summaries and the service map current
ERASE = "erase"  # operation of a commit that removes erased rows
