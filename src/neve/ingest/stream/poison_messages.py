"""Isolate poison messages: find the messages that kill the process that decodes them.

A batch that failed twice may hold such a message: because of a bug in a native library, or for lack of memory. Each
message of the batch is decoded once more, alone, in a child process with a memory limit. A message that kills two
children goes to quarantine with its bytes, and the rest of the batch is ingested as usual.

No message is blamed for a fault of the machine: children that don't start, or that die of an empty message, fail
the batch, which is retried. So do batches in which every message seems to kill, for a number of retries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from neve.errors import StreamFailed
from neve.ingest.config import IngestConfig
from neve.ingest.decoder import decode_all, split_messages_into_chunks
from neve.ingest.stream.raw_frames import SIGNALS, open_frame
from neve.lake.child_process import Child, ChildFailed, serve_requests
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.otlp import Intake
from neve.raw.frame import Encoding, Frame, Kind, Packing, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.decoder import Decode
    from neve.lake.child_process import Header
    from neve.otlp import Decoded
    from neve.raw.segments import Segment
    from neve.raw.zone import RawZone

MODULE = "neve.ingest.stream.poison_messages"
START_SECONDS = 300.0
FRAME_SECONDS = 600.0  # a worker that decodes one message for longer blocks the stream like a dead one
ATTEMPTS = 2
CERTAIN_FAILURES = 10  # of a batch; after that, every frame of it is accepted as a poison message
HARMLESS = {
    "kind": Kind.LOGS.value,
    "organization": "",
    "received": 0,
    "encoding": Encoding.PROTOBUF.value,
    "packing": Packing.NONE.value,
}
SCHEMA = "messages long, sources array<string>, places array<long>, reasons array<string>"

log = get_logger("neve.ingest")

# Messages that killed a process: the cause of death by source (path of a segment, or topic/partition) and position.
Killers = Mapping[str, Mapping[int, str]]
Place = TypeVar("Place")


class MessagePlace(NamedTuple):
    """A message of a batch: the segment or `topic/partition` that holds it, and its number or offset there."""

    source: str
    place: int


OpenMessages = Callable[[pa.RecordBatch], Iterable[tuple[MessagePlace, Frame]]]


def find_killers(
    spark: SparkSession,
    zone: RawZone,
    segments: Sequence[Segment],
    config: IngestConfig,
    decode_messages: Decode,
    failures: int,
) -> Killers:
    """Find the frames of segments that kill a process. Spark distributes the work.

    Raises `StreamFailed` if the machine may be the cause. `failures` is the number of failures of the batch so far.
    """

    def test_frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        indices = (index for batch in batches for index in batch.column(0).to_pylist())
        frames = (
            (MessagePlace(segments[index].path, place), frame)
            for index in indices
            for place, frame in _frames(zone, segments[index])
        )
        yield _report(frames, config, decode_messages)

    frame = spark.range(0, len(segments), 1, len(segments))
    return _collect(frame, test_frames, failures)


def find_kafka_killers(
    messages: DataFrame, open_messages: OpenMessages, config: IngestConfig, decode_messages: Decode, failures: int
) -> Killers:
    """Find the Kafka messages that kill a process, as `find_killers` does; sources are `topic/partition`."""

    def test_frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = (one for batch in batches for one in open_messages(batch))
        yield _report(frames, config, decode_messages)

    return _collect(messages, test_frames, failures)


def _report(
    frames: Iterable[tuple[MessagePlace, Frame]], config: IngestConfig, decode_messages: Decode
) -> pa.RecordBatch:
    """Test each frame of a task, and describe those that kill in one row."""
    tried = 0

    def count_frames() -> Iterator[tuple[MessagePlace, Frame]]:
        nonlocal tried
        for one in frames:
            tried += 1
            yield one

    found = killers_of(count_frames(), config, decode_messages)
    columns = {
        "messages": pa.array([tried], pa.int64()),
        "sources": pa.array([[at.source for at in found]], pa.list_(pa.string())),
        "places": pa.array([[at.place for at in found]], pa.list_(pa.int64())),
        "reasons": pa.array([list(found.values())], pa.list_(pa.string())),
    }
    return pa.RecordBatch.from_pydict(columns)


def _collect(
    frame: DataFrame, test_frames: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], failures: int
) -> Killers:
    rows = frame.mapInArrow(test_frames, SCHEMA).collect()
    check_credible(sum(row.messages for row in rows), sum(len(row.places) for row in rows), failures)
    killers: dict[str, dict[int, str]] = {}
    for row in rows:
        for source, place, reason in zip(row.sources, row.places, row.reasons, strict=True):
            killers.setdefault(source, {})[place] = reason
            log.error("a message kills its worker", source=source, place=place, reason=reason)
    return killers


def check_credible(messages: int, killers: int, failures: int) -> None:
    """Raise `StreamFailed` if every message of a batch kills: the machine is the likelier cause, for some retries.

    The number of retries is limited: a sender of only such messages would block all other senders.
    """
    if messages and killers == messages and failures < CERTAIN_FAILURES:
        raise StreamFailed(
            f"each of the {messages} messages of a batch ended the process that decoded it "
            f"(failure {failures} of the batch; they are quarantined after {CERTAIN_FAILURES})",
            hint="check the memory of the workers, and ingest.isolate_bytes",
        )


def killers_of(
    frames: Iterable[tuple[Place, Frame]], config: IngestConfig, decode_messages: Decode = decode_all
) -> dict[Place, str]:
    """Return the positions of the frames that kill a child process, each with the cause of death."""
    found: dict[Place, str] = {}
    with _Tester(config, decode_messages) as tester:
        for place, frame in frames:
            if failure := tester.try_out(frame):
                found[place] = f"decoding it failed {ATTEMPTS} times in a process of its own: {failure}"
    return found


def _frames(zone: RawZone, segment: Segment) -> list[tuple[int, Frame]]:
    try:
        contents = decode(zone.read(segment.path))
    except FileNotFoundError:
        return []  # the batch reports it
    return [(place, frame) for place, frame in enumerate(contents.frames) if frame.kind in SIGNALS]


class _Tester:
    """A child process that decodes frames. It is replaced when a frame kills it."""

    def __init__(self, config: IngestConfig, decode_messages: Decode) -> None:
        self._config = config
        self._name = f"{decode_messages.__module__}:{decode_messages.__qualname__}"
        self._child: Child | None = None

    def __enter__(self) -> _Tester:
        return self

    def __exit__(self, *_error: object) -> None:
        self._drop()

    def try_out(self, frame: Frame) -> str:
        """Return how a frame kills children, or nothing if it does not."""
        header = {
            "kind": frame.kind.value,
            "organization": frame.organization_id,
            "received": frame.received_unix_nano,
            "encoding": frame.encoding.value,
            "packing": frame.packing.value,
        }
        failure = ""
        for _attempt in range(ATTEMPTS):
            child = self._ready()  # outside of the try: the frame is not to blame if no child starts
            try:
                child.ask(header, frame.payload, FRAME_SECONDS)
            except ChildFailed as error:
                failure = error.message
                self._drop()
            else:
                return ""
        return failure

    def _ready(self) -> Child:
        """Return a child.

        A new one has decoded a harmless frame, so that the last attempt always follows such a success.
        """
        if self._child is not None and not self._child.is_fit:
            self._drop()
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> Child:
        arguments = (self._name, self._config.model_dump_json())
        child = None
        try:
            # An executor's worker has import paths that only its own process knows.
            child = Child(MODULE, self._config.isolate_bytes, *arguments, paths=sys.path)
            child.wait_ready(START_SECONDS)
            child.ask(HARMLESS, b"", FRAME_SECONDS)
        except ChildFailed as error:
            if child is not None:
                child.close()
            raise StreamFailed(
                f"the process that tries messages one by one did not start: {error.message}",
                hint="nothing was quarantined; check the memory and the processes of the workers",
            ) from None
        return child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _refuse_lack_of_memory(decoded: Decoded) -> None:
    """Raise if the decoder blamed the message for a lack of memory: a worker has no limit that would report it."""
    for bad in decoded.rejected:
        if "MemoryError" in bad.detail:
            raise MemoryError(bad.detail)


def main() -> None:
    """Decode the frames that the parent sends, until the parent ends."""
    memory_bytes, name, settings = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    config = IngestConfig.model_validate_json(settings)
    module, _, function = name.partition(":")
    decode_messages: Decode = getattr(import_module(module), function)
    decode_messages(Signal.TRACES, pa.array([b""], pa.binary()), Intake("", 0))  # load the modules for decoding

    def handle(header: Header, body: bytes) -> tuple[Header, bytes]:
        frame = Frame(
            Kind(header["kind"]),
            header["organization"],
            header["received"],
            body,
            Encoding(header["encoding"]),
            Packing(header["packing"]),
        )
        signal = SIGNALS[frame.kind]
        messages, _rejected = open_frame(signal, 0, frame, config)
        intake = Intake(frame.organization_id, frame.received_unix_nano)
        for chunk in split_messages_into_chunks(signal, pa.array(messages, pa.binary()), config.bounds):
            if len(chunk.messages):
                _refuse_lack_of_memory(decode_messages(signal, chunk.messages, intake))
        return {}, b""

    serve_requests(handle, memory_bytes)


if __name__ == "__main__":
    main()
