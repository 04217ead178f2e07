"""Documents in Redis: for each space a hash of its values and a sorted set of its keys.

A Redis without persistence, or with an eviction policy that removes keys without a time to live, loses documents.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault, LakeError
from neve.state.config import parse_redis_url, redact_state_url
from neve.state.documents import PAGE, check_place, check_prefix, dump_document, find_prefix_end, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import SecretStr

CONNECT_SECONDS = 10
ANSWER_SECONDS = 10
EPOCH = datetime.fromtimestamp(0, UTC)
ABSENT = ""  # no document has an empty text
# Keys: the hash and the sorted set. Arguments: the key, the expected text, the new text.
SWAP = """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('ZADD', KEYS[2], 0, ARGV[1])
end
return 1
"""


class RedisDocuments:
    """Documents in Redis or Valkey. The connection opens at the first use."""

    def __init__(self, url: str, password: SecretStr | None = None) -> None:
        self._url = url
        self._password = password.get_secret_value() if password else ""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Store a document and replace an existing one."""
        check_place(space, key)
        text = dump_document(value)
        with self._wrap_errors(), self._client.pipeline(transaction=True) as changes:
            changes.hset(_values_name(space), key, text)
            changes.zadd(_keys_name(space), {key: 0})
            changes.execute()

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """Return a document, or None."""
        check_place(space, key)
        with self._wrap_errors():
            text = self._client.hget(_values_name(space), key)
        return None if text is None else load_document(text)

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the documents whose keys have a prefix, ordered by key."""
        check_prefix(space, prefix)
        return self._entries(space, prefix)

    def delete(self, space: str, key: str) -> None:
        """Delete a document, if it exists."""
        check_place(space, key)
        with self._wrap_errors(), self._client.pipeline(transaction=True) as changes:
            changes.hdel(_values_name(space), key)
            changes.zrem(_keys_name(space), key)
            changes.execute()

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Replace a document if it equals `expected`. Return whether it did."""
        check_place(space, key)
        texts = [ABSENT if document is None else dump_document(document) for document in (expected, value)]
        with self._wrap_errors():
            changed: int = self._swap(keys=[_values_name(space), _keys_name(space)], args=[key, *texts])
        return changed == 1

    def export(self) -> tuple[tuple[str, str, dict[str, object]], ...]:
        """Return all documents with their spaces and keys, as they are at one moment."""
        with self._wrap_errors():
            prefix = _values_name("")
            names = sorted(name.decode() for name in self._client.scan_iter(match=f"{prefix}*", count=1000))
            with self._client.pipeline(transaction=True) as reads:
                for name in names:
                    reads.hgetall(name)
                found: list[dict[bytes, bytes]] = reads.execute()
        return tuple(
            (name.removeprefix(prefix), key.decode(), load_document(value))
            for name, values in zip(names, found, strict=True)
            for key, value in sorted(values.items())
        )

    def now(self) -> datetime:
        """Return the time of the server's clock."""
        with self._wrap_errors():
            seconds, microseconds = self._client.time()
        return EPOCH + timedelta(seconds=seconds, microseconds=microseconds)

    def close(self) -> None:
        """Close every connection."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Any:
        address = parse_redis_url(self._url)
        redis = _import_redis()
        return redis.Redis(
            host=address.host,
            port=address.port,
            db=address.database,
            password=self._password or None,
            ssl=address.secure,
            ssl_ca_certs=address.authority,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # A retry of a swap whose response was lost would fail because of the first attempt's change.
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )

    @cached_property
    def _swap(self) -> Any:
        return self._client.register_script(SWAP)

    def _entries(self, space: str, prefix: str) -> Iterator[tuple[str, dict[str, object]]]:
        end = find_prefix_end(prefix)
        after, until = f"[{prefix}", "+" if end is None else f"({end}"
        while page := self._page(space, after, until):
            for key, text in page.items():
                if text is not None:  # deleted since the keys were read
                    yield key, load_document(text)
            after = f"({next(reversed(page))}"

    def _page(self, space: str, after: str, until: str) -> dict[str, bytes | None]:
        with self._wrap_errors():
            keys: list[bytes] = self._client.zrangebylex(_keys_name(space), after, until, start=0, num=PAGE)
            texts: list[bytes | None] = self._client.hmget(_values_name(space), keys) if keys else []
        return {key.decode(): text for key, text in zip(keys, texts, strict=True)}

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except (_import_redis().RedisError, OSError) as error:
            reason = (str(error).splitlines() or [""])[0]
            if self._password:
                reason = reason.replace(self._password, "…")
            # Without its cause: a server may repeat its input, which includes the password.
            raise LakeError(
                f"the document store ({redact_state_url(self._url)}) failed: {type(error).__name__}: {reason}",
                hint="check state.documents and state.documents_password, and that the server runs",
            ) from None


def _import_redis() -> Any:
    try:
        return import_module("redis")
    except ImportError as error:
        raise EnvironmentFault(
            "state.documents needs the package redis, which is not installed", hint="pip install 'neve[redis]'"
        ) from error


def _values_name(space: str) -> str:
    return f"neve:documents:{space}"


def _keys_name(space: str) -> str:
    return f"neve:document-keys:{space}"
