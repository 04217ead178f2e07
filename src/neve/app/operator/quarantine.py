"""Rejected records of one organization: groups, pages, one record with its bytes, and a second attempt at it."""

# ruff: noqa: S608 - statements consist of names of our own; values are parameters

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field

from neve.app.operator.tenant_queries import choose_step, format_range
from neve.app.reports import Report
from neve.errors import NeveError
from neve.jobs.job import WorkNotFound, WorkStateError
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Frame, Kind

if TYPE_CHECKING:
    from neve.app.operator.tenant_queries import TenantQueries
    from neve.app.settings import Settings
    from neve.otlp import Rejected
    from neve.state.documents import Documents

MAX_GROUPS = 200
MAX_SHOWN_BYTES = 16 * 1024  # as hex
MAX_DECODED_BYTES = 256 * 1024
MAX_RETRIED_BYTES = 1024 * 1024
PROTO, JSON = "otlp_proto", "otlp_json"
RETRIED = "quarantine.retries"
ID = re.compile(r"[0-9]{1,20}-[0-9a-f]{32}")
KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}
NANOS = 1_000_000_000

IDENTITY = (
    "CAST(epoch_us(quarantined_at) AS VARCHAR) || '-' || md5(concat_ws('|', coalesce(source, ''), "
    "coalesce(CAST(position AS VARCHAR), ''), coalesce(signal, ''), coalesce(reason, ''), coalesce(batch_id, ''), "
    "coalesce(md5(payload), '')))"
)
RANGE = "quarantined_at >= CAST($since AS TIMESTAMPTZ) AND quarantined_at < CAST($until AS TIMESTAMPTZ)"


class RefusalGroup(Report):
    """Records that were rejected for one reason, from one source."""

    reason: str
    source: str
    signal: str
    records: int
    bytes: int
    first: datetime
    last: datetime
    example: str = Field(description="detail of one of them")


class RefusalBar(Report):
    """Records that were rejected for one reason in one interval."""

    at: datetime
    reason: str
    records: int


class RefusalGroups(Report):
    """Rejected records by reason and source, most records first, and over time."""

    total: int
    groups: list[RefusalGroup]
    left_out: int = Field(description="groups beyond the first 200")
    step_seconds: int
    bars: list[RefusalBar]


class RefusedRecord(Report):
    """One rejected record without its bytes."""

    id: str
    at: datetime
    signal: str
    reason: str
    detail: str
    source: str
    position: int | None
    encoding: str
    bytes: int | None = Field(description="size of the payload; null if it was too large to be stored")
    batch: str


class RefusedPage(Report):
    """Rejected records, newest first."""

    offset: int
    records: list[RefusedRecord]
    more: bool


class RefusedDetail(RefusedRecord):
    """One rejected record with its bytes."""

    hex: str = Field(description="first bytes of the payload")
    hex_bytes: int = Field(description="number of bytes in `hex`")
    decoded: str | None = Field(description="the payload as text: OTLP as JSON; null if it can't be decoded")
    decoded_note: str = Field(description="why it is not decoded, or what was left out")
    retry: str = Field(description="yes, or why a second attempt can't help")
    retried: str = Field(description="time of the second attempt; empty: none")


class RetryReport(Report):
    """A record that was accepted at its second attempt; ingestion stores it with the next batch."""

    id: str
    records: int
    words: str


@dataclass(frozen=True)
class Quarantine:
    """The rejected records of one organization."""

    queries: TenantQueries
    documents: Documents
    settings: Settings

    def groups(self, since: datetime, until: datetime) -> RefusalGroups:
        """Return the rejected records of a range by reason and source."""
        span = format_range(since, until)
        rows = self.queries.rows(
            "SELECT coalesce(reason, '') AS reason, coalesce(source, '') AS source, coalesce(signal, '') AS signal, "
            "count(*) AS records, coalesce(sum(octet_length(payload)), 0)::BIGINT AS bytes, "
            "min(quarantined_at) AS first, max(quarantined_at) AS last, coalesce(min(detail), '') AS example "
            f"FROM quarantine WHERE {RANGE} GROUP BY ALL ORDER BY records DESC, reason, source, signal",
            **span,
        )
        step = choose_step(since, until)
        bars = self.queries.rows(
            "SELECT to_timestamp(floor(epoch(quarantined_at) / $step) * $step) AS at, coalesce(reason, '') AS reason, "
            f"count(*) AS records FROM quarantine WHERE {RANGE} GROUP BY ALL ORDER BY ALL",
            step=step,
            **span,
        )
        return RefusalGroups(
            total=sum(row["records"] for row in rows),
            groups=[RefusalGroup(**row) for row in rows[:MAX_GROUPS]],
            left_out=max(0, len(rows) - MAX_GROUPS),
            step_seconds=step,
            bars=[RefusalBar(**row) for row in bars],
        )

    def page(
        self, since: datetime, until: datetime, *, reason: str = "", source: str = "", offset: int, limit: int
    ) -> RefusedPage:
        """Return a page of rejected records, newest first."""
        conditions = [RANGE, *(["reason = $reason"] if reason else []), *(["source = $source"] if source else [])]
        given = {**({"reason": reason} if reason else {}), **({"source": source} if source else {})}
        rows = self.queries.rows(
            f"{_select()} FROM quarantine WHERE {' AND '.join(conditions)} "
            "ORDER BY quarantined_at DESC, id LIMIT $limit OFFSET $offset",
            limit=limit + 1,
            offset=offset,
            **format_range(since, until),
            **given,
        )
        records = [RefusedRecord(**row) for row in rows[:limit]]
        return RefusedPage(offset=offset, records=records, more=len(rows) > limit)

    def get(self, record_id: str) -> RefusedDetail:
        """Return one record with its bytes; raises `WorkNotFound`."""
        row = self._find(record_id)
        payload: bytes | None = row.pop("payload")
        decoded, note = decode_payload(row["signal"], row["encoding"], payload)
        shown = (payload or b"")[:MAX_SHOWN_BYTES]
        retried = self.documents.get(RETRIED, self._key(record_id))
        return RefusedDetail(
            **row,
            hex=shown.hex(),
            hex_bytes=len(shown),
            decoded=decoded,
            decoded_note=note,
            retry=explain_retry(row["signal"], row["encoding"], payload),
            retried=str(retried["at"]) if retried else "",
        )

    def retry(self, record_id: str, by: str) -> tuple[Frame, RetryReport]:
        """Decode a record again and return the frame to store; raises `WorkStateError` if it is still rejected."""
        row = self._find(record_id)
        payload: bytes | None = row["payload"]
        refusal = explain_retry(row["signal"], row["encoding"], payload)
        if refusal != RETRY_HELPS or payload is None:
            raise WorkStateError(f"this record can't be tried again: {refusal}")
        if self.documents.get(RETRIED, self._key(record_id)) is not None:
            raise WorkStateError(
                "this record was tried again before, expected one attempt",
                hint="a record that is rejected again has a new entry in quarantine",
            )
        signal, now = Signal(row["signal"]), time.time_ns()
        records, rejected = self._decode(signal, row["encoding"], payload, now)
        if rejected is not None:
            raise WorkStateError(f"the record is still rejected: {rejected.reason}: {rejected.detail}"[:500])
        self.documents.put(RETRIED, self._key(record_id), {"at": self.documents.now().isoformat(), "by": by})
        encoding = Encoding.PROTOBUF if row["encoding"] == PROTO else Encoding.JSON
        frame = Frame(KINDS[signal], self.queries.caller.organization, now, payload, encoding)
        words = "accepted: ingestion stores it with its next batch, or leaves it out as a resend"
        return frame, RetryReport(id=record_id, records=records, words=words)

    def forget_retry(self, record_id: str) -> None:
        """Delete the mark of a second attempt whose frame could not be stored."""
        self.documents.delete(RETRIED, self._key(record_id))

    def _decode(self, signal: Signal, encoding: str, payload: bytes, now: int) -> tuple[int, Rejected | None]:
        from neve.ingest.decoder import decode_within  # noqa: PLC0415 - the decoder, for this alone
        from neve.otlp import Intake  # noqa: PLC0415
        from neve.otlp.json import to_protobuf  # noqa: PLC0415

        messages, config = pa.array([payload], pa.binary()), self.settings.ingest
        if encoding == JSON:
            found = to_protobuf(signal, payload)
            if found.rejected:
                return 0, found.rejected[0]
            messages = found.messages
        intake = Intake(self.queries.caller.organization, now, config.max_future_seconds * NANOS)
        decoded = decode_within(config.bounds, signal, messages, intake)
        return decoded.batch.num_rows, decoded.rejected[0] if decoded.rejected else None

    def _find(self, record_id: str) -> dict[str, Any]:
        if not ID.fullmatch(record_id):
            raise WorkNotFound(f"there is no rejected record {record_id[:100]!r}", hint="open it from the list")
        micros = record_id.partition("-")[0]
        if len(micros) > len(str(2**53)):
            raise WorkNotFound(f"there is no rejected record {record_id[:100]!r}", hint="open it from the list")
        rows = self.queries.rows(
            f"{_select()}, payload FROM quarantine WHERE quarantined_at = make_timestamptz($micros) "
            f"AND {IDENTITY} = $id LIMIT 1",
            micros=int(micros),
            id=record_id,
        )
        if not rows:
            raise WorkNotFound(f"there is no rejected record {record_id}", hint="retention may have deleted it")
        return rows[0]

    def _key(self, record_id: str) -> str:
        return f"{self.queries.caller.organization}/{record_id}"


def _select() -> str:
    return (
        f"SELECT {IDENTITY} AS id, quarantined_at AS at, coalesce(signal, '') AS signal, "
        "coalesce(reason, '') AS reason, coalesce(detail, '') AS detail, coalesce(source, '') AS source, position, "
        "coalesce(encoding, '') AS encoding, octet_length(payload) AS bytes, coalesce(batch_id, '') AS batch"
    )


RETRY_HELPS = "yes"


def explain_retry(signal: str, encoding: str, payload: bytes | None) -> str:
    """Return `yes` if a second attempt may help, or why it can't."""
    if payload is None:
        return "its bytes were too large to be stored"
    if encoding not in (PROTO, JSON) or signal not in set(Signal):
        return "only messages of OTLP can be tried again here: ingest the file again"
    if len(payload) > MAX_RETRIED_BYTES:
        return f"it has {len(payload):,} bytes, at most {MAX_RETRIED_BYTES:,} are tried again here"
    return RETRY_HELPS


def decode_payload(signal: str, encoding: str, payload: bytes | None) -> tuple[str | None, str]:
    """Return a payload as text, and what has to be known about it."""
    if payload is None:
        return None, "its bytes were too large to be stored"
    if len(payload) > MAX_DECODED_BYTES:
        return None, f"it has {len(payload):,} bytes, at most {MAX_DECODED_BYTES:,} are decoded here"
    if encoding == PROTO and signal in set(Signal):
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - the codec, for this alone

        from neve.otlp.json import to_json  # noqa: PLC0415

        try:
            return json.dumps(json.loads(to_json(Signal(signal), payload)), indent=2, ensure_ascii=False), ""
        except (NeveError, DecodeError, ValueError, RecursionError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            return None, f"it is not a message of OTLP: {line[:200]}"
    try:
        return payload.decode(), ""
    except UnicodeDecodeError:
        return payload.decode(errors="replace"), "bytes that are not UTF-8 were replaced"
