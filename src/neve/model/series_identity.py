"""The identity of raw series and of log streams: 64-bit ids, hashed for whole columns at once.

The hashes are the same in every process and release, because tables hold them. Hashes of attributes are added up, so
that their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

NULL_HASH = np.uint64(0x2545F4914F6CDD1D)
LANES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))

# The parts of a raw series, in the order in which they are hashed: the source, the metric, the point.
SOURCE_TEXTS = ("scope_name", "scope_version")
SOURCE_MAPS = ("resource_attr_types", "scope_attrs", "scope_attr_types")
METRIC_TEXTS = ("metric_name", "metric_type", "unit")
METRIC_NUMBERS = ("aggregation_temporality", "is_monotonic")
IDENTITY_COLUMNS = (
    *("resource_attrs", *SOURCE_TEXTS, *SOURCE_MAPS),
    *(*METRIC_TEXTS, *METRIC_NUMBERS),
    *("attributes", "attribute_types"),
)

# Attributes of a resource that make a stream of logs: the labels that Loki gives to logs from OTLP.
STREAM_ATTRIBUTES = frozenset(
    {
        *("service.name", "service.namespace", "service.instance.id"),
        *("deployment.environment", "deployment.environment.name"),
        *("cloud.region", "cloud.availability_zone", "container.name"),
        *(
            f"k8s.{kind}.name"
            for kind in (
                *("cluster", "namespace", "pod", "container", "replicaset", "deployment", "statefulset", "daemonset"),
                *("cronjob", "job"),
            )
        ),
    }
)


@dataclass(frozen=True)
class Entries:
    """A flattened column of maps: the row, the key and the value of each entry, in the order of the rows."""

    rows: int
    owner: npt.NDArray[np.int64]
    keys: pa.DictionaryArray
    values: pa.Array

    @classmethod
    def of(cls, column: pa.MapArray) -> Entries:
        """Return the entries of a map column. A null map and an empty map are the same."""
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        owner = np.repeat(np.arange(len(column)), np.diff(offsets))
        keys, values = (part.slice(first, last - first) for part in (column.keys, column.items))
        return cls(len(column), owner, encode_dictionary(keys), values)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Entries:
        """Return some of the entries."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Entries(self.rows, self.owner[mask], self.keys.filter(chosen), self.values.filter(chosen))

    def keep(self, names: frozenset[str]) -> Entries:
        """Return the entries with these keys."""
        known = np.array([name in names for name in self.keys.dictionary.to_pylist()], np.bool_)
        return self.filter(known[self.keys.indices.to_numpy(zero_copy_only=False)])

    @cached_property
    def hashes(self) -> Words:
        """Return two words for each row, which do not depend on the order of its entries."""
        return self.hash_lanes(2)

    def hash_lanes(self, lanes: int) -> Words:
        """Return the first word of `hashes`, or both."""
        one = mix_bits(text_hashes(self.keys) * LANES[0] + text_hashes(self.values))
        lengths = np.bincount(self.owner, minlength=self.rows)
        ends = np.cumsum(lengths)
        words = np.zeros((self.rows, lanes), dtype=np.uint64)
        for lane, factor in enumerate(LANES[:lanes]):
            # Sums are modulo 2**64, so the difference of two running sums is the sum of the entries between them.
            running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix_bits(one ^ factor))))
            words[:, lane] = running[ends] - running[ends - lengths]
        return words


def encode_dictionary(column: pa.Array) -> pa.DictionaryArray:
    """Return texts as indices of a dictionary."""
    return column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, null_encoding="mask")


def text_hashes(column: pa.Array) -> Words:
    """Return a hash of each text. Only distinct texts are hashed one by one."""
    numbers = encode_dictionary(column)
    known = numbers.dictionary.to_pylist()
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(str(text).encode()) for text in known), np.uint64, len(known))
    codes = numbers.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    found: Words = np.append(hashes, NULL_HASH)[codes]
    return found


def number_hashes(column: pa.Array) -> Words:
    """Return a hash of each integer or boolean."""
    numbers = pc.fill_null(pc.cast(column, pa.int64()), -(2**62)).to_numpy(zero_copy_only=False)
    return mix_bits(numbers.astype(np.int64).view(np.uint64))


def hash_names(parts: Sequence[Words], begun: Words | None = None, lanes: int = 2) -> Words:
    """Return a name of two words for each row, from the hashes of all of its parts, in order.

    `begun` is the name of the parts before these. Each word depends on the same words of the parts alone.
    """
    names = np.zeros((len(parts[0]), lanes), dtype=np.uint64) if begun is None else begun
    factors = np.array(LANES[: names.shape[1]])
    for part in parts:
        names = mix_bits(names * factors + (part if part.ndim == 2 else part[:, None]) + NULL_HASH)
    return names


def mix_bits(words: Words) -> Words:
    """Spread every bit over the whole word (the end of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: Words = words ^ (words >> np.uint64(31))
    return spread


def hash_sources(columns: Mapping[str, pa.Array], resource: Words) -> Words:
    """Return the name of the resource and scope of each row, given the hashes of its resource's attributes."""
    lanes = resource.shape[1]
    texts = [text_hashes(columns[name]) for name in SOURCE_TEXTS]
    maps = [Entries.of(columns[name]).hash_lanes(lanes) for name in SOURCE_MAPS]
    return hash_names([*texts, resource, *maps], lanes=lanes)


def hash_metrics(columns: Mapping[str, pa.Array], sources: Words, texts: Sequence[Words]) -> Words:
    """Return the name of the metric of each row within its source, given the hashes of `METRIC_TEXTS`."""
    return hash_names([*texts, *(number_hashes(columns[name]) for name in METRIC_NUMBERS)], sources)


def hash_points(columns: Mapping[str, pa.Array], metrics: Words, attributes: Words) -> Words:
    """Return the name of the raw series of each row, given the names of metrics and the hashes of attributes."""
    lanes = attributes.shape[1]
    types = Entries.of(columns["attribute_types"]).hash_lanes(lanes)
    return hash_names([metrics, attributes, types], lanes=lanes)


# An id is the first word of a name, so the second one is not computed.


def hash_id_sources(columns: Mapping[str, pa.Array]) -> Words:
    """Return the first word of the name of the resource and scope of each row."""
    return hash_sources(columns, Entries.of(columns["resource_attrs"]).hash_lanes(1))


def hash_id_metrics(columns: Mapping[str, pa.Array], sources: Words) -> Words:
    """Return the first word of the name of the metric of each row within its source."""
    return hash_metrics(columns, sources, [text_hashes(columns[name]) for name in METRIC_TEXTS])


def make_ids(columns: Mapping[str, pa.Array], metrics: Words) -> pa.Int64Array:
    """Return the ids of raw series, from the attributes of points and the first words of the names of their metrics."""
    return _to_ids(hash_points(columns, metrics, Entries.of(columns["attributes"]).hash_lanes(1)))


def make_series_ids(columns: Mapping[str, pa.Array]) -> pa.Int64Array:
    """Return the id of the raw series of each row, from `IDENTITY_COLUMNS`."""
    return make_ids(columns, hash_id_metrics(columns, hash_id_sources(columns)))


def make_stream_ids(resource_attrs: pa.MapArray) -> pa.Int64Array:
    """Return the id of the stream of each resource, from the attributes that are labels of streams."""
    labels = Entries.of(resource_attrs).keep(STREAM_ATTRIBUTES)
    return _to_ids(hash_names([labels.hash_lanes(1)], lanes=1))


def _to_ids(names: Words) -> pa.Int64Array:
    return pa.array(np.ascontiguousarray(names[:, 0]).view(np.int64))
