"""Patch pyiceberg so that it builds the reader of an Avro schema once, and not for each manifest.

All manifests of a table have the same schema. Building its reader took ten times as long as reading a manifest of one
file. Readers and schemas have no state that a file changes, so files and threads share them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, KNOWN_CODECS
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader, resolve_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.avro.codecs.codec import Codec
    from pyiceberg.avro.reader import Reader
    from pyiceberg.schema import Schema

SCHEMA_KEY = "avro.schema"
MAX_READERS = 256  # schemas: about two for each partition spec of a table

_find_default_codec = AvroFileHeader.compression_codec
_parse_schema = AvroFileHeader.get_schema
_schemas: dict[str, Schema] = {}
_readers: dict[tuple[Any, ...], tuple[Schema, Schema, Reader]] = {}


def patch_avro_readers() -> None:
    """Apply the patch to this process. A second call has no effect."""
    AvroFileHeader.compression_codec = find_codec  # type: ignore[method-assign,assignment]
    AvroFileHeader.get_schema = find_schema  # type: ignore[method-assign,assignment]
    AvroFile._read_header = _read_header  # type: ignore[method-assign,assignment]
    AvroFile.__enter__.__globals__["resolve_reader"] = find_reader


def find_codec(header: AvroFileHeader) -> type[Codec] | None:
    """Return the codec that a file names. pyiceberg imports its tables for the name of its default first."""
    for name, codec in KNOWN_CODECS.items():
        if header.meta.get(AVRO_CODEC_KEY) == name:
            return codec
    return _find_default_codec(header)


def find_schema(header: AvroFileHeader) -> Schema:
    """Return the schema of a file; the same object for each file of this schema."""
    text = header.meta.get(SCHEMA_KEY)
    if text is None:
        return _parse_schema(header)
    schema = _schemas.get(text)
    if schema is None:
        if len(_schemas) >= MAX_READERS:
            _schemas.clear()
        schema = _schemas[text] = _parse_schema(header)
    return schema


def find_reader(
    file_schema: Schema,
    read_schema: Schema,
    read_types: Mapping[int, Callable[..., Any]],
    read_enums: Mapping[int, Callable[..., Any]],
) -> Reader:
    """Return the reader for files of a schema; the same one for the same objects."""
    key = (id(file_schema), id(read_schema), tuple(read_types.items()), tuple(read_enums.items()))
    known = _readers.get(key)
    if known is None:
        if len(_readers) >= MAX_READERS:
            _readers.clear()
        reader = resolve_reader(file_schema, read_schema, dict(read_types), dict(read_enums))
        # The schemas are kept with the reader, or their ids could be given to other objects.
        known = _readers[key] = (file_schema, read_schema, reader)
    return known[-1]


def _read_header(file: AvroFile[Any]) -> AvroFileHeader:
    header: AvroFileHeader = _make_header_reader().read(file.decoder)
    return header


@lru_cache(maxsize=1)
def _make_header_reader() -> Reader:
    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})
