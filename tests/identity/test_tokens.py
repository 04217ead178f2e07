"""Tokens: which are accepted, as whom, and the reason for which each other one is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from neve.identity.config import OidcConfig
from neve.identity.rejection import TokenRejected
from neve.identity.tokens import TokenVerifier
from neve.state.scopes import Scope
from tests.identity.issuer import AUDIENCE, ROLES, Issuer, public_document, rsa_key, running_issuer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """A provider with one key."""
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def verifier(issuer: Issuer) -> TokenVerifier:
    """A verifier that has read the key."""
    return TokenVerifier(issuer.config())


def reason_of(verifier: TokenVerifier, token: str) -> TokenRejected:
    """Return why a token is refused."""
    with pytest.raises(TokenRejected) as caught:
        verifier.verify(token)
    return caught.value


def test_a_good_token_names_its_caller(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Organization, subject, the scopes of its roles, and its end with the leeway."""
    ends = int(time.time()) + 100
    caller = verifier.verify(issuer.token(exp=ends))
    assert (caller.organization, caller.key_id) == ("acme", "subject:alice")
    assert caller.scopes == (Scope.WRITE, Scope.READ)
    assert caller.expires_at is not None
    assert caller.expires_at.timestamp() == ends + 30


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "expired_token"),
        ({"nbf": 4_000_000_000}, "early_token"),
        ({"iat": 4_000_000_000}, "early_token"),
        ({"aud": "another"}, "wrong_audience"),
        ({"aud": ["another", "third"]}, "wrong_audience"),
        ({"iss": "https://elsewhere.example"}, "wrong_issuer"),
        ({"exp": None}, "missing_claim"),
        ({"sub": None}, "missing_claim"),
        ({"aud": None}, "missing_claim"),
        ({"iss": None}, "missing_claim"),
        ({"organization": None}, "missing_claim"),
        ({"roles": None}, "missing_claim"),
        ({"sub": "a\nb"}, "missing_claim"),
        ({"sub": "x" * 256}, "missing_claim"),
        ({"sub": ""}, "missing_claim"),
        ({"roles": ["janitor"]}, "unknown_role"),
        ({"roles": []}, "unknown_role"),
        ({"roles": {"reader": True}}, "unknown_role"),
        ({"roles": [["reader"]]}, "unknown_role"),
        ({"organization": "*"}, "wrong_organization"),
        ({"organization": "../acme"}, "wrong_organization"),
        ({"organization": "a\n"}, "wrong_organization"),
        ({"organization": "acme "}, "wrong_organization"),
        ({"organization": "x" * 65}, "wrong_organization"),
        ({"organization": ["acme"]}, "wrong_organization"),
        ({"organization": 7}, "wrong_organization"),
        ({"exp": "soon"}, "malformed_token"),
        ({"exp": 1e300}, "malformed_token"),
    ],
)
def test_claims_are_refused_with_a_reason(
    issuer: Issuer, verifier: TokenVerifier, claims: dict[str, Any], reason: str
) -> None:
    """The reason is about the token, and has nothing of the server's settings."""
    rejected = reason_of(verifier, issuer.token(**claims))
    assert rejected.reason == reason
    assert issuer.url not in rejected.message
    assert "127.0.0.1" not in rejected.message
    assert rejected.subject in ("alice", "")


def test_the_subject_of_an_expired_token_is_known(issuer: Issuer, verifier: TokenVerifier) -> None:
    """For the audit log; that of a token with a wrong signature is not."""
    assert reason_of(verifier, issuer.token(exp=1)).subject == "alice"
    assert reason_of(verifier, issuer.token(rsa_key(1), exp=1)).subject == ""


def forge(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """Return a token signed with a shared secret, whatever its header says."""

    def encode(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = f"{encode(json.dumps(header).encode())}.{encode(json.dumps(claims).encode())}"
    signature = hmac.new(secret, signed.encode(), hashlib.sha256).digest() if secret else b""
    return f"{signed}.{encode(signature)}"


@pytest.mark.parametrize("algorithm", ["HS256", "none", "None", "hs256", "RS1", "", None, 7, ["RS256"]])
def test_other_algorithms_are_refused(issuer: Issuer, verifier: TokenVerifier, algorithm: object) -> None:
    """A public key is no shared secret, and a token without a signature is none."""
    public = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for secret in (public, b""):
        token = forge({"alg": algorithm, "kid": "one", "typ": "JWT"}, issuer.claims(), secret)
        assert reason_of(verifier, token).reason in {"wrong_algorithm", "malformed_token"}


def test_shared_secrets_can_not_be_configured(issuer: Issuer) -> None:
    """Also not beside others."""
    for name in ("HS256", "none"):
        with pytest.raises(ValueError, match="RS256"):
            issuer.config(algorithms=["RS256", name])


def test_a_token_can_not_bring_its_key(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Neither in its header nor at an address of its choice."""
    import jwt

    stranger = rsa_key(1)
    for header in (
        {"kid": "one", "jwk": public_document(stranger)},
        {"kid": "one", "jku": "https://attacker.example/jwks"},
        {"kid": "one", "x5u": "https://attacker.example/x"},
    ):
        token = jwt.encode(issuer.claims(), stranger, algorithm="RS256", headers=header)
        assert reason_of(verifier, token).reason == "wrong_signature"


@pytest.mark.parametrize(
    "text", ["..", "a.b.c", "eyJ.eyJ.x", "é.é.é", "eyJhbGciOiJSUzI1NiJ9..", "." * 2 + "x" * 3000, "e30.e30."]
)
def test_other_texts_are_no_tokens(verifier: TokenVerifier, text: str) -> None:
    """Whatever has two dots is refused with a reason, and never with a traceback."""
    assert reason_of(verifier, text).reason in {
        "malformed_token",
        "wrong_algorithm",
        "wrong_signature",
        "unknown_key",
    }


def test_large_tokens_are_refused_unread(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Before anything of them is decoded."""
    assert reason_of(verifier, issuer.token(extra="x" * 9000)).reason == "oversized_token"


def test_deep_claims_are_refused(issuer: Issuer, verifier: TokenVerifier) -> None:
    """Nested objects within the size limit do not end the process."""
    nested = "[" * 3000 + "]" * 3000
    token = forge({"alg": "RS256", "kid": "one"}, {}, b"")
    middle = base64.urlsafe_b64encode(nested.encode()).rstrip(b"=").decode()
    assert reason_of(verifier, f"{token.split('.')[0]}.{middle}.AAAA").reason in {"wrong_signature", "malformed_token"}


def test_the_leeway_is_of_clocks_only(issuer: Issuer) -> None:
    """A token that ended 20 s ago is accepted with a leeway of 30, and not with 10."""
    token = issuer.token(exp=int(time.time()) - 20)
    assert TokenVerifier(issuer.config(leeway_seconds=30)).verify(token).organization == "acme"
    assert reason_of(TokenVerifier(issuer.config(leeway_seconds=10)), token).reason == "expired_token"


def test_claims_may_be_nested_or_have_dots(issuer: Issuer) -> None:
    """As Keycloak's `realm_access.roles`, and as names that are addresses; roles may be one text."""
    config = issuer.config(organization_claim="https://neve.example/org", roles_claim="realm_access.roles")
    claims: dict[str, Any] = {"https://neve.example/org": "beta", "realm_access": {"roles": "x reader"}}
    token = issuer.token(organization=None, **claims)
    caller = TokenVerifier(config).verify(token)
    assert (caller.organization, caller.scopes) == ("beta", (Scope.READ,))


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "EdDSA"])
def test_other_key_types_verify(algorithm: str) -> None:
    """Each algorithm with a key of its own type and curve, and with no other."""
    curves: dict[str, Any] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}
    key: Any = (
        ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else ec.generate_private_key(curves[algorithm])
    )
    with running_issuer() as issuer:
        issuer.keys = [public_document(key, kid="one")]
        verifier = TokenVerifier(issuer.config(algorithms=["RS256", algorithm]))
        assert verifier.verify(issuer.token(key, alg=algorithm)).organization == "acme"
        assert reason_of(verifier, issuer.token()).reason == "unknown_key"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"issuer": "http://idp.example"}, "https"),
        ({"issuer": "ftp://idp.example"}, "https"),
        ({"audience": []}, "audience"),
        ({"roles": {}}, "roles"),
        ({"roles": {"a": ["fly"]}}, "write"),
        ({"jwks_url": "http://idp.example/keys"}, "https"),
    ],
)
def test_unsafe_settings_are_refused(values: dict[str, Any], message: str) -> None:
    """Keys over plain text, tokens for everybody, and scopes that do not exist."""
    good = {"issuer": "https://idp.example", "audience": [AUDIENCE], "roles": ROLES}
    OidcConfig.model_validate(good)
    with pytest.raises(ValueError, match=message):
        OidcConfig.model_validate({**good, **values})
