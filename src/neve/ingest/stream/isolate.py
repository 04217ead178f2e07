"""Find the frames that end the process that decodes them.

A batch that failed twice may hold such a frame: of a bug in a native library, or of memory. Each frame of its segments
is decoded once more, alone, in a child process with a memory limit. A frame that ends two children is the culprit. It
goes to quarantine with its bytes, and the rest of the batch is taken in as always.

No frame pays for what is wrong with the machine: children that don't start, or that die of a frame without records,
fail the batch, which comes again. So do batches of which every frame seems to be a culprit, for a number of times.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog

from neve.errors import StreamFailed
from neve.ingest.chunks import cut
from neve.ingest.config import IngestConfig
from neve.ingest.decoder import decode_all
from neve.ingest.stream.open_frames import SIGNALS, open_frame
from neve.lake.child import Child, ChildFailed, serve_requests
from neve.model.signals import Signal
from neve.otlp import Intake
from neve.raw.frame import Encoding, Frame, Kind, Packing, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from neve.ingest.decoder import Decode
    from neve.lake.child import Header
    from neve.otlp import Decoded
    from neve.raw.zone import RawZone, Segment

MODULE = "neve.ingest.stream.isolate"
START_SECONDS = 300.0
FRAME_SECONDS = 600.0  # a worker that decodes one message for longer holds up the stream as surely as a dead one
ATTEMPTS = 2
CERTAIN_FAILURES = 10  # of a batch; then it is believed that every frame of it ends processes
HARMLESS = {
    "kind": Kind.LOGS.value,
    "organization": "",
    "received": 0,
    "encoding": Encoding.PROTOBUF.value,
    "packing": Packing.NONE.value,
}
SCHEMA = "segment long, frames long, places array<long>, reasons array<string>"

log = structlog.get_logger("neve.ingest")


def find_killers(
    spark: SparkSession,
    zone: RawZone,
    segments: Sequence[Segment],
    config: IngestConfig,
    decode_messages: Decode,
    failures: int,
) -> dict[str, dict[int, str]]:
    """The frames of segments that end a process, by path and place, each with how it ended; Spark shares the work.

    Raises `StreamFailed` where the cause may be another one than the frames; `failures` are those of the batch so far.
    """

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                frames = _frames(zone, segments[index])
                found = killers_of(frames, config, decode_messages)
                columns = {
                    "segment": pa.array([index], pa.int64()),
                    "frames": pa.array([len(frames)], pa.int64()),
                    "places": pa.array([list(found)], pa.list_(pa.int64())),
                    "reasons": pa.array([list(found.values())], pa.list_(pa.string())),
                }
                yield pa.RecordBatch.from_pydict(columns)

    rows = spark.range(0, len(segments), 1, len(segments)).mapInArrow(look, SCHEMA).collect()
    check_credible(sum(row.frames for row in rows), sum(len(row.places) for row in rows), failures)
    killers: dict[str, dict[int, str]] = {}
    for row in rows:
        path = segments[row.segment].path
        for place, reason in zip(row.places, row.reasons, strict=True):
            killers.setdefault(path, {})[place] = reason
            log.error("a message ends its worker", segment=path, place=place, reason=reason)
    return killers


def check_credible(frames: int, killers: int, failures: int) -> None:
    """Raise `StreamFailed` where every frame of a batch ends processes: the machine is the likelier cause, for a while.

    Not for ever: a sender of nothing but such messages would hold up everybody.
    """
    if frames and killers == frames and failures < CERTAIN_FAILURES:
        raise StreamFailed(
            f"each of the {frames} messages of a batch ended the process that decoded it "
            f"(failure {failures} of the batch; they are quarantined after {CERTAIN_FAILURES})",
            hint="look at the memory of the workers, and at ingest.isolate_bytes",
        )


def killers_of(
    frames: Iterable[tuple[int, Frame]], config: IngestConfig, decode_messages: Decode = decode_all
) -> dict[int, str]:
    """The places of the frames that end a child process, each with how it ended."""
    found: dict[int, str] = {}
    with _Tester(config, decode_messages) as tester:
        for place, frame in frames:
            if failure := tester.try_out(frame):
                found[place] = f"decoding it failed {ATTEMPTS} times in a process of its own: {failure}"
    return found


def _frames(zone: RawZone, segment: Segment) -> list[tuple[int, Frame]]:
    try:
        contents = decode(zone.read(segment.path))
    except FileNotFoundError:
        return []  # the batch says so
    return [(place, frame) for place, frame in enumerate(contents.frames) if frame.kind in SIGNALS]


class _Tester:
    """A child that decodes frames, replaced when one ends it."""

    def __init__(self, config: IngestConfig, decode_messages: Decode) -> None:
        self._config = config
        self._name = f"{decode_messages.__module__}:{decode_messages.__qualname__}"
        self._child: Child | None = None

    def __enter__(self) -> _Tester:
        return self

    def __exit__(self, *_error: object) -> None:
        self._drop()

    def try_out(self, frame: Frame) -> str:
        """How a frame ends children, or nothing where it does not."""
        header = {
            "kind": frame.kind.value,
            "organization": frame.organization_id,
            "received": frame.received_unix_nano,
            "encoding": frame.encoding.value,
            "packing": frame.packing.value,
        }
        failure = ""
        for _attempt in range(ATTEMPTS):
            child = self._ready()  # outside of the try: that none starts is no fault of the frame
            try:
                child.ask(header, frame.payload, FRAME_SECONDS)
            except ChildFailed as error:
                failure = error.message
                self._drop()
            else:
                return ""
        return failure

    def _ready(self) -> Child:
        """A child; a new one has decoded a harmless frame, so that the last attempt always follows such a success."""
        if self._child is not None and not self._child.is_fit:
            self._drop()
        if self._child is None:
            self._child = self._start()
        return self._child

    def _start(self) -> Child:
        arguments = (self._name, self._config.model_dump_json())
        child = None
        try:
            # An executor's worker imports from places that only its own process knows.
            child = Child(MODULE, self._config.isolate_bytes, *arguments, paths=sys.path)
            child.wait_ready(START_SECONDS)
            child.ask(HARMLESS, b"", FRAME_SECONDS)
        except ChildFailed as error:
            if child is not None:
                child.close()
            raise StreamFailed(
                f"the process that tries messages one by one did not start: {error.message}",
                hint="nothing is quarantined for that; look at the memory and the processes of the workers",
            ) from None
        return child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _refuse_lack_of_memory(decoded: Decoded) -> None:
    """Raise where the decoder took a lack of memory for a fault of the message: a worker has no limit that says so."""
    for bad in decoded.rejected:
        if "MemoryError" in bad.detail:
            raise MemoryError(bad.detail)


def main() -> None:
    """Decode what the parent sends, until it is gone."""
    memory_bytes, name, settings = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    config = IngestConfig.model_validate_json(settings)
    module, _, function = name.partition(":")
    decode_messages: Decode = getattr(import_module(module), function)
    decode_messages(Signal.TRACES, pa.array([b""], pa.binary()), Intake("", 0))  # load what decoding needs

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
        for chunk in cut(signal, pa.array(messages, pa.binary()), config.bounds):
            if len(chunk.messages):
                _refuse_lack_of_memory(decode_messages(signal, chunk.messages, intake))
        return {}, b""

    serve_requests(handle, memory_bytes)


if __name__ == "__main__":
    main()
