"""Documents in Redis: for each space a hash of its values and a sorted set of its keys.

A Redis that forgets (no persistence, or an eviction policy that takes keys without a time to live) forgets documents.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault, LakeError
from neve.lake.documents import PAGE, beyond, check_place, check_prefix, dump, load
from neve.lake.state_config import redis_address_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import SecretStr

CONNECT_SECONDS = 10
ANSWER_SECONDS = 10
EPOCH = datetime.fromtimestamp(0, UTC)
ABSENT = ""  # no document has an empty text
# Keys: the hash and the sorted set. Arguments: the key, the text that is expected, the text to come.
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
    """The documents of a Redis, or of a Valkey; nothing is opened before it is used."""

    def __init__(self, url: str, password: SecretStr | None = None) -> None:
        self._url = url
        self._password = password.get_secret_value() if password else ""

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Keep a document, in the place of what was there."""
        check_place(space, key)
        text = dump(value)
        with self._explained(), self._client.pipeline(transaction=True) as changes:
            changes.hset(_values(space), key, text)
            changes.zadd(_keys(space), {key: 0})
            changes.execute()

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """A document, or none."""
        check_place(space, key)
        with self._explained():
            text = self._client.hget(_values(space), key)
        return None if text is None else load(text)

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """The documents whose keys begin so, in the order of their keys."""
        check_prefix(space, prefix)
        return self._entries(space, prefix)

    def delete(self, space: str, key: str) -> None:
        """Forget a document, if there is one."""
        check_place(space, key)
        with self._explained(), self._client.pipeline(transaction=True) as changes:
            changes.hdel(_values(space), key)
            changes.zrem(_keys(space), key)
            changes.execute()

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Change a document only if it is what is expected; whether it was."""
        check_place(space, key)
        texts = [ABSENT if document is None else dump(document) for document in (expected, value)]
        with self._explained():
            changed: int = self._swap(keys=[_values(space), _keys(space)], args=[key, *texts])
        return changed == 1

    def now(self) -> datetime:
        """The server's clock."""
        with self._explained():
            seconds, microseconds = self._client.time()
        return EPOCH + timedelta(seconds=seconds, microseconds=microseconds)

    def close(self) -> None:
        """Close every connection."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Any:
        address = redis_address_of(self._url)
        redis = _library()
        return redis.Redis(
            host=address.host,
            port=address.port,
            db=address.database,
            password=self._password or None,
            ssl=address.secure,
            ssl_ca_certs=address.authority,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # A swap whose answer was lost would be refused the second time, by what it did the first time.
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )

    @cached_property
    def _swap(self) -> Any:
        return self._client.register_script(SWAP)

    def _entries(self, space: str, prefix: str) -> Iterator[tuple[str, dict[str, object]]]:
        end = beyond(prefix)
        after, until = f"[{prefix}", "+" if end is None else f"({end}"
        while page := self._page(space, after, until):
            for key, text in page.items():
                if text is not None:  # deleted since the keys were read
                    yield key, load(text)
            after = f"({next(reversed(page))}"

    def _page(self, space: str, after: str, until: str) -> dict[str, bytes | None]:
        with self._explained():
            keys: list[bytes] = self._client.zrangebylex(_keys(space), after, until, start=0, num=PAGE)
            texts: list[bytes | None] = self._client.hmget(_values(space), keys) if keys else []
        return {key.decode(): text for key, text in zip(keys, texts, strict=True)}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (_library().RedisError, OSError) as error:
            words = (str(error).splitlines() or [""])[0]
            if self._password:
                words = words.replace(self._password, "…")
            # Without its cause: a server may repeat what it was sent, and that is the password, too.
            raise LakeError(
                f"the store of documents ({shown(self._url)}) failed: {type(error).__name__}: {words}",
                hint="look at state.documents and state.documents_password, and whether the server runs",
            ) from None


def _library() -> Any:
    try:
        return import_module("redis")
    except ImportError as error:
        raise EnvironmentFault(
            "redis is not installed, which keeping documents in Redis needs", hint="pip install 'neve[redis]'"
        ) from error


def _values(space: str) -> str:
    return f"neve:documents:{space}"


def _keys(space: str) -> str:
    return f"neve:document-keys:{space}"
