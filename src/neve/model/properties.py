"""Table properties: the keys that Neve sets and reads, and their defaults."""

FORMAT_VERSION = "format-version"
FORMAT_VERSION_DEFAULT = 2
TARGET_FILE_SIZE_BYTES = "write.target-file-size-bytes"
TARGET_FILE_SIZE_BYTES_DEFAULT = 512 * 1024 * 1024  # 512 MB
BLOOM_FILTER_PREFIX = "write.parquet.bloom-filter-enabled.column."
METRICS_PREFIX = "write.metadata.metrics.column."
LAYOUT_ZORDER = "neve.layout.zorder"  # column names separated by commas; without it the table's sort order applies
DEDUPLICATE = "neve.deduplicate"  # true: rows of one record_id are one record; default: only in Neve's own tables

BASE_PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.metrics.default": "none",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    TARGET_FILE_SIZE_BYTES: str(TARGET_FILE_SIZE_BYTES_DEFAULT),
}
