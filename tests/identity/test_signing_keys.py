"""Signing keys: found by discovery, renewed for a rotated key, and never a way to make the server ask and ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.identity.rejection import TokenRejected
from neve.identity.signing_keys import MAX_STALE_SECONDS, IssuerUnavailable, SigningKeys
from neve.identity.tokens import TokenVerifier
from tests.identity.issuer import Issuer, public_document, rsa_key, running_issuer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """A provider with one key."""
    with running_issuer() as running:
        yield running


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def make_verifier(issuer: Issuer, clock: Clock, **config: Any) -> TokenVerifier:
    """Return a verifier with this clock."""
    found = issuer.config(**config)
    return TokenVerifier(found, SigningKeys(found, clock=clock))


@pytest.mark.parametrize("kid", ["two", None])
def test_a_rotated_key_is_found(issuer: Issuer, kid: str | None) -> None:
    """By its id, or by the signature if the provider names none; the withdrawn key is refused."""
    clock = Clock()
    if kid is None:
        issuer.keys = [public_document(rsa_key())]
    verifier = make_verifier(issuer, clock)
    old = issuer.token(kid=kid and "one")
    assert verifier.verify(old).organization == "acme"
    issuer.keys = [public_document(rsa_key(1), **({"kid": kid} if kid else {}))]
    clock.now += 11
    assert verifier.verify(issuer.token(rsa_key(1), kid=kid)).organization == "acme"
    clock.now += 11
    with pytest.raises(TokenRejected, match="unknown key" if kid else "signature"):
        verifier.verify(old)


def test_unknown_ids_do_not_become_requests(issuer: Issuer) -> None:
    """One request for the keys in `refresh_seconds`; other tokens with unknown ids get a delay to retry."""
    clock = Clock()
    verifier = make_verifier(issuer, clock)
    verifier.verify(issuer.token())
    assert issuer.requests.count("/jwks") == 1
    for number in range(50):
        with pytest.raises(TokenRejected) as caught:
            verifier.verify(issuer.token(kid=f"guess-{number}"))
        assert caught.value.retry_seconds == 10
    assert issuer.requests.count("/jwks") == 1
    clock.now += 10
    with pytest.raises(TokenRejected) as caught:
        verifier.verify(issuer.token(kid="guess"))
    assert (caught.value.reason, caught.value.retry_seconds) == ("unknown_key", None)
    assert issuer.requests.count("/jwks") == 2
    assert verifier.verify(issuer.token()).organization == "acme"


def test_keys_are_read_again_after_their_time(issuer: Issuer) -> None:
    """So that a withdrawn key ends, also if nobody uses a new one."""
    clock = Clock()
    verifier = make_verifier(issuer, clock, jwks_seconds=60)
    token = issuer.token()
    verifier.verify(token)
    issuer.keys = [public_document(rsa_key(1), kid="two")]
    assert verifier.verify(token).organization == "acme"
    clock.now += 61
    with pytest.raises(TokenRejected):
        verifier.verify(token)


def test_an_unavailable_provider_is_bridged(issuer: Issuer) -> None:
    """Known keys are used for a day; without any, the answer is that authentication is unavailable."""
    clock = Clock()
    verifier = make_verifier(issuer, clock)
    verifier.verify(issuer.token())
    issuer.status = 503
    clock.now += 3601
    assert verifier.verify(issuer.token()).organization == "acme"
    clock.now += MAX_STALE_SECONDS
    for _attempt in range(2):
        with pytest.raises(IssuerUnavailable):
            verifier.verify(issuer.token())
    with pytest.raises(IssuerUnavailable):
        make_verifier(issuer, clock).verify(issuer.token())
    issuer.status = 200
    clock.now += 11
    assert verifier.verify(issuer.token()).organization == "acme"


@pytest.mark.parametrize(
    "spoil",
    [
        {"document": {"issuer": "https://elsewhere.example"}},
        {"document": {"jwks_uri": "http://192.0.2.1/keys"}},
        {"document": {"jwks_uri": "file:///etc/passwd"}},
        {"keys": []},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]},
        {"keys": [{"kty": "RSA", "n": "?", "e": "AQAB", "kid": "one"}]},
        {"keys": ["text", 7, None]},
    ],
)
def test_documents_that_can_not_be_trusted(issuer: Issuer, spoil: dict[str, Any]) -> None:
    """Of another issuer, with keys over plain text, with shared secrets, or with nothing usable."""
    for name, value in spoil.items():
        setattr(issuer, name, value)
    with pytest.raises(IssuerUnavailable):
        make_verifier(issuer, Clock()).verify(issuer.token())


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits long")
def test_weak_and_other_keys_are_ignored(issuer: Issuer) -> None:
    """RSA keys under 2048 bits, and keys for encryption; a key for one algorithm verifies no other."""
    issuer.keys = [
        public_document(rsa_key(2, 1024), kid="weak"),
        public_document(rsa_key(1), kid="encrypts", use="enc"),
        public_document(rsa_key(), kid="one", alg="RS512"),
    ]
    verifier = make_verifier(issuer, Clock(), algorithms=["RS256", "RS512"], refresh_seconds=1)
    assert verifier.verify(issuer.token(alg="RS512")).organization == "acme"
    for token in (
        issuer.token(rsa_key(2, 1024), kid="weak"),
        issuer.token(rsa_key(1), kid="encrypts"),
        issuer.token(kid="one"),
    ):
        with pytest.raises(TokenRejected, match="unknown key"):
            verifier.verify(token)
