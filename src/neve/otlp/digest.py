"""128-bit hashes of records and messages, which distinguish a client's resend from a new record (ADR 22)."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

Digests = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

WIDTH = 16


def digests(wires: pa.BinaryArray) -> Digests:
    """Return the XXH3-128 of each value, as two words a row; the loop runs in C."""
    joined = b"".join(map(xxhash.xxh3_128_digest, wires.to_pylist()))
    return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def content_digests(records: Digests, surroundings: Digests) -> Digests:
    """Combine the digest of each record with that of its context: its resource, its scope and their schema URLs."""
    # The multiplication keeps a record and its context from cancelling out, as a plain xor of equal hashes would.
    return records ^ (surroundings * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))


def message_digests(contents: Digests, message: Indices, wanted: Indices) -> Digests:
    """Return the digests of some messages, over all their records in order; `message` must be in ascending order."""
    starts, ends = np.searchsorted(message, wanted), np.searchsorted(message, wanted, side="right")
    joined = b"".join(
        xxhash.xxh3_128_digest(contents[start:end].tobytes())
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def bind_to_messages(contents: Digests, bound: Indices, messages: Digests) -> Digests:
    """Fold the digest of its message into each of the rows `bound`."""
    words = contents.copy()
    words[bound] ^= messages * np.uint64(0xA24BAED4963EE407) + np.uint64(1)
    return words


def record_ids(contents: Digests, message: Indices) -> pa.BinaryArray:
    """Return the ids of records, from the digests of their contents and their index among equal records.

    Equal records of one message are several records: no exporter repeats one within a message. The second gets another
    id than the first, and a resend of the message gives both the same ids again.
    """
    words = contents + _places_among_equals(contents, message)[:, None] * np.uint64(0xD6E8FEB86659FD93)
    offsets = np.arange(len(words) + 1, dtype=np.int32) * WIDTH
    return pa.BinaryArray.from_buffers(pa.binary(), len(words), [None, pa.py_buffer(offsets), pa.py_buffer(words)])


def _places_among_equals(words: Digests, message: Indices) -> npt.NDArray[np.uint64]:
    """Return the number of equal rows of the same message before each row."""
    places = np.zeros(len(words), dtype=np.uint64)
    in_order = np.sort(words[:, 0])
    if not (in_order[1:] == in_order[:-1]).any():
        return places
    order = np.lexsort((np.arange(len(words)), words[:, 1], words[:, 0], message))
    same = (words[order][1:] == words[order][:-1]).all(axis=1) & (message[order][1:] == message[order][:-1])
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    runs = np.diff(np.append(starts, len(words)))
    places[order] = np.arange(len(words)) - np.repeat(starts, runs)
    return places
