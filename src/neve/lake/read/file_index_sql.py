"""SQL statements of the file index. Each function is named for the result of its statement."""

# ruff: noqa: S608 - what is put into the statements are numbers and names of our own

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.read.statistics import highest_time_sql, lowest_time_sql

if TYPE_CHECKING:
    from collections.abc import Collection

    from neve.lake.read.manifests import ManifestBatch
    from neve.lake.read.partition_stats import FileCriteria
    from neve.lake.read.statistics import TimeColumn

PATH_FIELD = 2147483546  # the column of a position-delete file with the paths of data files
SEQUENCE, FILE_SEQUENCE = "sequence_number", "file_sequence_number"
# Only an entry that its manifest adds inherits the manifest's sequence number. An existing entry has an older one.
INHERITED = "CASE WHEN e.status = 1 OR m.sequence = 0 THEN m.sequence END"
POSITION, EQUALITY, VECTOR, EVERYWHERE = "position", "equality", "vector", "everywhere"

TABLES = """
CREATE TABLE commits (id BIGINT, sequence BIGINT, micros BIGINT);
CREATE TABLE manifests (filename VARCHAR, sequence BIGINT, snapshot_id BIGINT);
CREATE TABLE files (
    spec_id INTEGER, partition VARCHAR, path VARCHAR, bytes BIGINT, row_count BIGINT, sequence BIGINT,
    file_sequence BIGINT, format VARCHAR, sort_order_id INTEGER, time_low BIGINT, time_high BIGINT, moment BIGINT,
    manifest VARCHAR
);
CREATE TABLE deletes (
    spec_id INTEGER, partition VARCHAR, kind VARCHAR, bytes BIGINT, row_count BIGINT, sequence BIGINT, data_path VARCHAR
);
CREATE TABLE laid_out (spec_id INTEGER, partition VARCHAR, sequence BIGINT);
CREATE TABLE wanted (spec_id INTEGER, partition VARCHAR, everything BOOLEAN);
"""

SIZE_CLASSES = """
SELECT floor(log2(greatest(bytes, 1)))::INTEGER AS power, count(*), sum(bytes)::BIGINT, sum(row_count)::BIGINT
FROM files GROUP BY power ORDER BY power
"""


def remove_manifests() -> str:
    """Return the SQL that removes the files of manifests."""
    return "DELETE FROM files WHERE manifest IN (SELECT unnest(?::VARCHAR[]))"


def count_files() -> str:
    """Return the SQL for the number of data files, and of those without a time."""
    return "SELECT count(*), count(*) FILTER (time_high IS NULL) FROM files"


def files(batch: ManifestBatch, values: str, time: TimeColumn | None, columns: Collection[str]) -> str:
    """Return the SQL for the data files of a batch whose entries have these columns.

    An entry with an unknown sequence number counts as the oldest: more deletes may seem to apply, never fewer.
    """
    own, own_file = (_own_number(name, batch, columns) for name in (SEQUENCE, FILE_SEQUENCE))
    sequence = f"coalesce({own}, {INHERITED}, 0)"
    by_sequence, by_id = f"c.sequence = {sequence}", "c.id = coalesce(e.snapshot_id, m.snapshot_id)"
    return f"""
    INSERT INTO files
    SELECT {batch.spec_id}, {values}, data_file.file_path, data_file.file_size_in_bytes, data_file.record_count,
        {sequence}, coalesce({own_file}, {INHERITED}, {own}, 0), lower(data_file.file_format),
        data_file.sort_order_id, {lowest_time_sql(time)} AS low, {highest_time_sql(time)} AS high,
        coalesce(high, c.micros), e.filename
    FROM read_avro(?, filename = true) e
    JOIN manifests m ON m.filename = e.filename
    LEFT JOIN commits c ON {by_sequence if batch.has_sequences else by_id}
    WHERE e.status < 2
    """


def _own_number(name: str, batch: ManifestBatch, columns: Collection[str]) -> str:
    """Return the SQL for an entry's own sequence number. Older writers have no column for it."""
    return f"e.{name}" if batch.has_sequences and name in columns else "NULL"


def deletes(
    batch: ManifestBatch, values: str, columns: Collection[str], *, names_file: bool, is_unpartitioned: bool
) -> str:
    """Return the SQL for the delete files of a batch, and the data file of each that refers to one file only.

    A delete with an unknown sequence number counts as new as its manifest: it can't be newer.
    """
    own = _own_number(SEQUENCE, batch, columns)
    named = "data_file.referenced_data_file" if names_file else "NULL"
    low, high = (f"data_file.{bounds}[{PATH_FIELD}]" for bounds in ("lower_bounds", "upper_bounds"))
    # Equal bounds of paths are whole paths. A truncated upper bound is never equal to the lower one.
    only = f"CASE WHEN {low} = {high} THEN decode({low}) END"
    return f"""
    INSERT INTO deletes
    SELECT {batch.spec_id}, {values},
        CASE WHEN data_file.content = 2 THEN '{EVERYWHERE if is_unpartitioned else EQUALITY}'
             WHEN lower(data_file.file_format) = 'puffin' THEN '{VECTOR}' ELSE '{POSITION}' END,
        data_file.file_size_in_bytes, data_file.record_count, coalesce({own}, m.sequence),
        CASE WHEN data_file.content = 1 THEN coalesce({named}, {only}) END
    FROM read_avro(?, filename = true) e JOIN manifests m ON m.filename = e.filename
    WHERE e.status < 2
    """


def data(*, has_deletes: bool) -> str:
    """Return the SQL for data files with the number of delete files that apply to each.

    A position delete refers to a file that existed when the delete was written. It does not apply to a file that was
    added later, for example by a rewrite, even if its rows have kept an older sequence number. An equality delete uses
    the sequence number of the rows.
    """
    if not has_deletes:
        return """
    CREATE OR REPLACE VIEW data AS
    SELECT *, 0 AS position_files, 0 AS own_files, 0 AS own_rows, 0 AS equality_files FROM files
    """
    return f"""
    CREATE TABLE data AS
    WITH positions AS ({_count_later(f"kind = '{POSITION}' AND data_path IS NULL")}),
    equalities AS ({_count_later(f"kind = '{EQUALITY}'")}),
    everywhere AS (
        SELECT sequence, sum(count(*)) OVER (ORDER BY sequence DESC) AS files
        FROM deletes WHERE kind = '{EVERYWHERE}' GROUP BY sequence
    ),
    own AS (
        SELECT f.path, count(*) AS files, sum(d.row_count) AS row_count
        FROM files f JOIN deletes d ON d.data_path = f.path AND d.sequence >= f.file_sequence GROUP BY f.path
    )
    SELECT f.*, coalesce(p.files, 0) AS position_files, coalesce(own.files, 0) AS own_files,
        coalesce(own.row_count, 0) AS own_rows, coalesce(e.files, 0) + coalesce(a.files, 0) AS equality_files
    FROM files f
    ASOF LEFT JOIN positions p
        ON p.spec_id = f.spec_id AND p.partition = f.partition AND p.sequence >= f.file_sequence
    ASOF LEFT JOIN equalities e ON e.spec_id = f.spec_id AND e.partition = f.partition AND e.sequence > f.sequence
    ASOF LEFT JOIN everywhere a ON a.sequence > f.sequence
    LEFT JOIN own ON own.path = f.path
    """


def _count_later(which: str) -> str:
    """Return the SQL for the number of deletes of a partition with a sequence number at least as large."""
    return f"""
    SELECT spec_id, partition, sequence,
        sum(count(*)) OVER (PARTITION BY spec_id, partition ORDER BY sequence DESC) AS files
    FROM deletes WHERE {which} GROUP BY spec_id, partition, sequence
    """


def classify_files(criteria: FileCriteria) -> str:
    """Return the SQL for data files with their classes. A file without a time counts as old."""
    hot = "false" if criteria.hot_from_us is None else f"coalesce(moment >= {criteria.hot_from_us}, false)"
    unlaid = "false"
    if criteria.wants_layout:
        order = f"sort_order_id IS DISTINCT FROM {criteria.sort_order_id}" if criteria.sort_order_id else "true"
        unlaid = f"{order} AND data.sequence > coalesce(laid_out.sequence, -1)"
    return f"""
    SELECT data.*, {hot} AS hot, {unlaid} AS unlaid,
        position_files + own_files >= {criteria.delete_files}
            OR own_rows > {criteria.delete_ratio} * row_count AS over_deletes
    FROM data LEFT JOIN laid_out USING (spec_id, partition)
    """


def stats(criteria: FileCriteria) -> str:
    """Return the SQL for the counts of every partition with a data file."""
    sizes = criteria.sizes
    undersized = f"bytes > {sizes.fragment} AND bytes <= {sizes.small}"
    shares = {
        "hot": "hot",
        "fragments": f"NOT hot AND bytes <= {sizes.fragment}",
        "undersized": f"NOT hot AND {undersized}",
        "oversized": f"NOT hot AND bytes > {sizes.large}",
        "unlaid": "NOT hot AND unlaid",
        "over_deletes": "NOT hot AND over_deletes",
        "with_positions": "NOT hot AND position_files > 0",
        "with_equality": "NOT hot AND equality_files > 0",
    }
    counted = ",\n".join(
        f"count(*) FILTER ({which}) AS {name}_files, coalesce(sum(bytes) FILTER ({which}), 0)::BIGINT AS {name}_bytes"
        for name, which in shares.items()
    )
    return f"""
    SELECT spec_id, partition, count(*) AS files, sum(bytes)::BIGINT AS bytes, sum(row_count)::BIGINT AS row_count,
        {counted},
        coalesce(min(bytes, 2) FILTER (NOT hot AND {undersized}), []) AS smallest,
        coalesce(sum(row_count) FILTER (NOT hot AND position_files > 0), 0)::BIGINT AS with_position_rows,
        coalesce(sum(row_count) FILTER (NOT hot AND equality_files > 0), 0)::BIGINT AS with_equality_rows,
        min(sequence) AS oldest_sequence, max(sequence) AS newest_sequence,
        min(time_low) AS time_low, max(time_high) AS time_high
    FROM ({classify_files(criteria)}) GROUP BY spec_id, partition ORDER BY spec_id, partition
    """


def delete_counts(criteria: FileCriteria) -> str:
    """Return the SQL for the counts of delete files by partition. Global deletes count for each partition."""
    return f"""
    WITH oldest AS (
        SELECT spec_id, partition, min(sequence) AS sequence, min(file_sequence) AS file_sequence,
            min(sequence) FILTER (NOT hot) AS cold_sequence, min(file_sequence) FILTER (NOT hot) AS cold_file_sequence
        FROM ({classify_files(criteria)}) GROUP BY spec_id, partition
    ),
    placed AS (
        SELECT * FROM deletes WHERE kind <> '{EVERYWHERE}'
        UNION ALL
        SELECT o.spec_id, o.partition, '{EQUALITY}', d.bytes, d.row_count, d.sequence, NULL
        FROM deletes d CROSS JOIN oldest o WHERE d.kind = '{EVERYWHERE}'
    ),
    applied AS (
        SELECT d.*,
            coalesce(CASE WHEN d.data_path IS NOT NULL THEN f.path IS NOT NULL
                 WHEN d.kind = '{EQUALITY}' THEN o.sequence < d.sequence
                 ELSE o.file_sequence <= d.sequence END, false) AS applies,
            coalesce(CASE WHEN d.kind = '{EQUALITY}' THEN o.cold_sequence < d.sequence
                 ELSE o.cold_file_sequence <= d.sequence END, false) AS live
        FROM placed d LEFT JOIN oldest o USING (spec_id, partition)
        LEFT JOIN files f ON f.path = d.data_path AND d.sequence >= f.file_sequence
    )
    SELECT spec_id, partition,
        count(*) FILTER (kind = '{POSITION}'), coalesce(sum(row_count) FILTER (kind = '{POSITION}'), 0)::BIGINT,
        count(*) FILTER (kind = '{EQUALITY}'), coalesce(sum(row_count) FILTER (kind = '{EQUALITY}'), 0)::BIGINT,
        count(*) FILTER (kind = '{VECTOR}'), sum(bytes)::BIGINT,
        coalesce(sum(row_count) FILTER (kind = '{POSITION}' AND data_path IS NULL AND live), 0)::BIGINT,
        count(*) FILTER (kind = '{EQUALITY}' AND live),
        coalesce(sum(row_count) FILTER (kind = '{EQUALITY}' AND live), 0)::BIGINT,
        count(*) FILTER (NOT applies)
    FROM applied GROUP BY spec_id, partition ORDER BY spec_id, partition
    """


def candidates(criteria: FileCriteria, most: int) -> str:
    """Return the SQL for the candidates of a rewrite in the wanted partitions, by time, at most `most` of each."""
    sizes = criteria.sizes
    return f"""
    SELECT spec_id, partition, path, bytes, row_count, sequence, format, sort_order_id, time_low, time_high,
        position_files, own_files, own_rows, equality_files, unlaid
    FROM ({classify_files(criteria)}) JOIN wanted USING (spec_id, partition)
    WHERE NOT hot AND (
        everything OR bytes <= {sizes.small} OR bytes > {sizes.large} OR unlaid
        OR position_files + own_files + equality_files > 0
    )
    QUALIFY row_number() OVER (PARTITION BY spec_id, partition ORDER BY time_low, sequence, path) <= {most}
    ORDER BY spec_id, partition, time_low, sequence, path
    """
