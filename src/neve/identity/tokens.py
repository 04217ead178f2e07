"""Verification of a bearer token: its signature, its times, issuer and audience, and the caller that its claims name.

The reasons that a client gets are of its own token, and never of the provider or of the server's settings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jwt

from neve.errors import ConfigError
from neve.identity.rejection import TokenRejected
from neve.identity.signing_keys import SigningKeys
from neve.model.settings import check_organization
from neve.state.scopes import SUBJECT_PREFIX, Caller, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.identity.config import OidcConfig

REQUIRED_CLAIMS = ("exp", "iss", "aud", "sub")
MAX_SUBJECT = 255  # characters, by OpenID Connect
MAX_ROLES = 1000
# Reasons by the error of PyJWT, the most specific first.
REASONS: tuple[tuple[type[jwt.PyJWTError], str, str], ...] = (
    (jwt.ExpiredSignatureError, "expired_token", "the token has expired"),
    (jwt.ImmatureSignatureError, "early_token", "the token is not valid yet"),
    (jwt.InvalidAudienceError, "wrong_audience", "the token is for another audience"),
    (jwt.InvalidIssuerError, "wrong_issuer", "the token is of another issuer"),
    (jwt.MissingRequiredClaimError, "missing_claim", "the token lacks one of the claims exp, iss, aud and sub"),
    (jwt.InvalidSignatureError, "wrong_signature", "the signature of the token is wrong"),
    (jwt.InvalidAlgorithmError, "wrong_algorithm", "the signature algorithm of the token is not accepted"),
)
UNSIGNED = (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError)


class TokenVerifier:
    """Verifier of the tokens of one provider."""

    def __init__(self, config: OidcConfig, keys: SigningKeys | None = None) -> None:
        self._config = config
        self._keys = keys or SigningKeys(config)

    def verify(self, text: str) -> Caller:
        """Return the caller of a token; raises `TokenRejected`, and `IssuerUnavailable` if no keys can be read."""
        if len(text) > self._config.max_token_bytes:
            message = f"the token has {len(text)} bytes, expected at most {self._config.max_token_bytes}"
            raise TokenRejected("oversized_token", message)
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRejected("malformed_token", "the token is not a JSON web token") from None
        if header.get("alg") not in self._config.algorithms:
            raise TokenRejected("wrong_algorithm", "the signature algorithm of the token is not accepted")
        return self._read_caller(self._read_claims(text, header))

    def _read_claims(self, text: str, header: Mapping[str, Any]) -> Mapping[str, Any]:
        key_id, algorithm = header.get("kid"), str(header["alg"])
        seen = self._keys.read_at
        try:
            return self._decode(text, self._keys.find(key_id, algorithm).key, algorithm)
        except TokenRejected as error:
            if key_id is not None or error.reason != "wrong_signature" or self._keys.read_at > seen:
                raise
        self._keys.refresh(seen)  # without a key id, a new key of the provider shows by the signature alone
        return self._decode(text, self._keys.find(key_id, algorithm).key, algorithm)

    def _decode(self, text: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        config = self._config
        try:
            found: dict[str, Any] = jwt.decode(
                text,
                key,
                algorithms=[algorithm],
                audience=config.audience,
                issuer=config.issuer,
                leeway=config.leeway_seconds,
                options={"require": list(REQUIRED_CLAIMS)},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError) as error:
            subject = "" if isinstance(error, UNSIGNED) else _read_subject(text, key, algorithm)
            for kind, reason, message in REASONS:
                if isinstance(error, kind):
                    raise TokenRejected(reason, message, subject=subject) from None
            raise TokenRejected("malformed_token", "the token is not a valid JSON web token") from None
        return found

    def _read_caller(self, claims: Mapping[str, Any]) -> Caller:
        subject = _check_subject(claims.get("sub"))
        try:
            expires_at = datetime.fromtimestamp(float(claims["exp"]) + self._config.leeway_seconds, UTC)
        except (ValueError, OverflowError, OSError):
            raise TokenRejected(
                "malformed_token", "the claim `exp` of the token is not a time", subject=subject
            ) from None
        return Caller(
            self._read_organization(claims, subject),
            SUBJECT_PREFIX + subject,
            self._read_scopes(claims, subject),
            expires_at,
        )

    def _read_organization(self, claims: Mapping[str, Any], subject: str) -> str:
        claim = self._config.organization_claim
        value = find_claim(claims, claim)
        if value is None:
            raise TokenRejected("missing_claim", f"the token lacks the claim `{claim}`", subject=subject)
        try:
            return check_organization(value if isinstance(value, str) else "")
        except ConfigError:
            message = f"the claim `{claim}` of the token is not the name of one organization"
            raise TokenRejected("wrong_organization", message, subject=subject) from None

    def _read_scopes(self, claims: Mapping[str, Any], subject: str) -> tuple[Scope, ...]:
        claim = self._config.roles_claim
        value = find_claim(claims, claim)
        if value is None:
            raise TokenRejected("missing_claim", f"the token lacks the claim `{claim}`", subject=subject)
        roles = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        granted = {
            scope for role in roles[:MAX_ROLES] if isinstance(role, str) for scope in self._config.roles.get(role, ())
        }
        if not granted:
            raise TokenRejected("unknown_role", f"the claim `{claim}` of the token has no known role", subject=subject)
        return tuple(scope for scope in Scope if scope in granted)


def find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path through objects; None if there is none.

    >>> find_claim({"a.b": 1, "a": {"b": 2, "c": 3}}, "a.b"), find_claim({"a": {"c": 3}}, "a.c"), find_claim({}, "a.b")
    (1, 3, None)
    """
    if name in claims:
        return claims[name]
    first, dot, rest = name.partition(".")
    below = claims.get(first)
    return find_claim(below, rest) if dot and isinstance(below, dict) else None


def _check_subject(value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_SUBJECT or not value.isprintable():
        raise TokenRejected("missing_claim", f"the claim `sub` has no text of 1 to {MAX_SUBJECT} printable characters")
    return value


def _read_subject(text: str, key: Any, algorithm: str) -> str:
    """Return the subject of a token that is rejected for its claims, for the audit log; empty if it is not signed."""
    unchecked: Any = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
    try:
        return _check_subject(jwt.decode(text, key, algorithms=[algorithm], options=unchecked).get("sub"))
    except (jwt.PyJWTError, TokenRejected, ValueError, TypeError, RecursionError, OverflowError):
        return ""
