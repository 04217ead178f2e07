"""Silences of an organization, in the state store: alerts that match are not sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neve.errors import NeveError
from neve.lexical.matchers import Matcher, MatchKind, RegexError, validate_regex
from neve.promql.labels import is_valid_name, match_sets
from neve.rules.notify.outgoing_alert import format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.promql.labels import Labels
    from neve.state.documents import Documents

__all__ = ["InvalidSilence", "Silence", "Silences"]

SPACE = "silences"
MAX_SILENCES = 1000  # of one organization
MAX_MATCHERS, MAX_CHARACTERS = 50, 1000
KEPT_MS = 5 * 86_400_000  # expired silences stay visible for so long
_KINDS = {
    (False, True): MatchKind.EQUAL,
    (False, False): MatchKind.NOT_EQUAL,
    (True, True): MatchKind.REGEX,
    (True, False): MatchKind.NOT_REGEX,
}
_ID = re.compile(r"[0-9a-f-]{1,64}")


class InvalidSilence(NeveError):
    """Raised when a silence can't be stored as it was sent."""


@dataclass(frozen=True)
class Silence:
    """Matchers and a time range."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at_ms: int
    ends_at_ms: int
    created_by: str
    comment: str
    updated_at_ms: int

    def state(self, now_ms: int) -> str:
        """Return pending, active or expired."""
        if now_ms < self.starts_at_ms:
            return "pending"
        return "active" if now_ms < self.ends_at_ms else "expired"

    def matches(self, labels: Labels) -> bool:
        """Return whether all matchers match."""
        return match_sets([labels], self.matchers)[0]

    def as_document(self) -> dict[str, Any]:
        """Return the silence in the format of Alertmanager's API, without its status."""
        return {
            "id": self.id,
            "matchers": [_describe_matcher(one) for one in self.matchers],
            "startsAt": format_rfc3339(self.starts_at_ms),
            "endsAt": format_rfc3339(self.ends_at_ms),
            "createdBy": self.created_by,
            "comment": self.comment,
            "updatedAt": format_rfc3339(self.updated_at_ms),
        }

    def describe(self, now_ms: int) -> dict[str, Any]:
        """Return the silence as Alertmanager's API answers it."""
        return {**self.as_document(), "status": {"state": self.state(now_ms)}}


def _describe_matcher(one: Matcher) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": one.value,
        "isRegex": one.kind in {MatchKind.REGEX, MatchKind.NOT_REGEX},
        "isEqual": one.kind in {MatchKind.EQUAL, MatchKind.REGEX},
    }


def parse_silence(document: Mapping[str, Any], now_ms: int) -> Silence:
    """Return the silence of a request. Raises `InvalidSilence`."""
    matchers = document.get("matchers")
    if not isinstance(matchers, list) or not 1 <= len(matchers) <= MAX_MATCHERS:
        raise InvalidSilence(f"invalid silence: matchers must be a list of 1 to {MAX_MATCHERS} matchers")
    read = tuple(_parse_matcher(one) for one in matchers)
    if all(one.matches_empty for one in map(_Emptiness, read)):
        raise InvalidSilence("invalid silence: at least one matcher must not match the empty string")
    starts, ends = (_parse_time(document, name) for name in ("startsAt", "endsAt"))
    if ends <= starts or ends <= now_ms:
        raise InvalidSilence("invalid silence: endsAt must be after startsAt and in the future")
    return Silence(
        _text(document, "id"),
        read,
        max(starts, now_ms) if not document.get("id") else starts,
        ends,
        _text(document, "createdBy"),
        _text(document, "comment"),
        now_ms,
    )


@dataclass(frozen=True)
class _Emptiness:
    matcher: Matcher

    @property
    def matches_empty(self) -> bool:
        return bool(self.matcher.match_all([""])[0])


def _parse_matcher(one: Any) -> Matcher:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not isinstance(one.get("value"), str):
        raise InvalidSilence("invalid silence: a matcher needs the texts name and value")
    name, value = one["name"], one["value"]
    if not is_valid_name(name) or max(len(name), len(value)) > MAX_CHARACTERS:
        raise InvalidSilence(f"invalid silence: name or value of a matcher is invalid: {name[:80]!r}")
    kind = _KINDS[bool(one.get("isRegex")), bool(one.get("isEqual", True))]
    if kind in {MatchKind.REGEX, MatchKind.NOT_REGEX}:
        try:
            validate_regex(value)
        except RegexError as error:
            raise InvalidSilence(f"invalid silence: {error}") from error
    return Matcher(name, kind, value)


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name) or ""
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        raise InvalidSilence(f"invalid silence: {name} must be a text of at most {MAX_CHARACTERS} characters")
    return value


def _parse_time(document: Mapping[str, Any], name: str) -> int:
    try:
        moment = datetime.fromisoformat(str(document.get(name)))
    except ValueError:
        raise InvalidSilence(
            f"invalid silence: {name} is {str(document.get(name))[:80]!r}, expected RFC 3339"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


class Silences:
    """Silences of all organizations. A key never reaches those of another organization."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def of(self, organization: str, now_ms: int) -> list[Silence]:
        """Return the silences of an organization. Those that expired long ago are deleted."""
        found = []
        for key, document in self._documents.entries(SPACE, f"{organization}/"):
            silence = _load(document)
            if silence.ends_at_ms < now_ms - KEPT_MS:
                self._documents.delete(SPACE, key)
            else:
                found.append(silence)
        return found

    def find(self, organization: str, silence_id: str) -> Silence | None:
        """Return a silence, or `None`."""
        document = self._documents.get(SPACE, f"{organization}/{silence_id}") if _ID.fullmatch(silence_id) else None
        return None if document is None else _load(document)

    def put(self, organization: str, document: Mapping[str, Any], now_ms: int) -> Silence | None:
        """Store a silence and return it with its id. `None` if it names an id that does not exist."""
        silence = parse_silence(document, now_ms)
        if silence.id:
            if self.find(organization, silence.id) is None:
                return None
        elif len(self.of(organization, now_ms)) >= MAX_SILENCES:
            raise InvalidSilence(f"there are {MAX_SILENCES} silences already: delete some")
        stored = {**silence.as_document(), "id": silence.id or str(uuid4())}
        self._documents.put(SPACE, f"{organization}/{stored['id']}", stored)
        return _load(stored)

    def expire(self, organization: str, silence_id: str, now_ms: int) -> bool:
        """End a silence now. Return whether it exists."""
        silence = self.find(organization, silence_id)
        if silence is None:
            return False
        ends = {"endsAt": format_rfc3339(min(now_ms, silence.ends_at_ms)), "updatedAt": format_rfc3339(now_ms)}
        self._documents.put(SPACE, f"{organization}/{silence_id}", {**silence.as_document(), **ends})
        return True


def _load(document: Mapping[str, Any]) -> Silence:
    return Silence(
        str(document["id"]),
        tuple(_parse_matcher(one) for one in document["matchers"]),
        _parse_time(document, "startsAt"),
        _parse_time(document, "endsAt"),
        str(document["createdBy"]),
        str(document["comment"]),
        _parse_time(document, "updatedAt"),
    )
