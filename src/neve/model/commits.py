"""The keys that Neve writes into a snapshot's summary."""

BATCH_ID = "neve.batch-id"
OPERATION = "neve.operation"
VERSION = "neve.version"
RECORDS = "neve.records"
REJECTED = "neve.rejected"
SOURCE_BYTES = "neve.source-bytes"
SOURCE_FILES = "neve.source-files"
