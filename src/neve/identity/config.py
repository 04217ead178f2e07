"""Settings of bearer tokens."""

from __future__ import annotations

from typing import Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from neve.model.settings import Section, check_http_address, is_loopback
from neve.state.scopes import Scope  # noqa: TC001 - pydantic reads it

# Algorithms of public keys. HS256 and its kin would take a public key for a shared secret, and `none` takes anything.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


class OidcConfig(Section):
    """Tokens of an OpenID Connect provider, accepted beside API keys where `auth` is keys."""

    issuer: str = Field(
        "",
        description="address of the provider, exactly as in the claim `iss`; https, or http on loopback; empty: no "
        "tokens are accepted",
    )
    audience: tuple[str, ...] = Field(
        (), description="values of the claim `aud` that are accepted; required with an issuer"
    )
    jwks_url: str = Field("", description="address of the signing keys; empty: from the provider's discovery document")
    organization_claim: str = Field(
        "organization",
        min_length=1,
        description="claim with the organization; `a.b` is the claim b of the object a, if there is no claim `a.b`",
    )
    roles_claim: str = Field(
        "roles",
        min_length=1,
        description="claim with the roles: a list, or a text with spaces between them; dots as in organization_claim",
    )
    roles: dict[str, tuple[Scope, ...]] = Field(
        {}, description="scopes of each role; a token gets those of all its roles, unknown roles are ignored"
    )
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256"), min_length=1, description=f"signature algorithms, some of {', '.join(ALGORITHMS)}"
    )
    leeway_seconds: float = Field(30, ge=0, le=300, description="tolerated difference of clocks in seconds")
    jwks_seconds: float = Field(3600, ge=60, le=86_400, description="seconds to cache the signing keys")
    refresh_seconds: float = Field(
        10, ge=1, le=3600, description="minimum seconds between two requests for the signing keys"
    )
    timeout_seconds: float = Field(5, gt=0, le=60, description="seconds to wait for a response of the provider")
    ca_file: str = Field("", description="PEM file with trusted certificates; empty: the system's")
    max_token_bytes: int = Field(8192, ge=512, le=65_536, description="maximum size of a token")

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return check_provider_address(value) if value else value

    @model_validator(mode="after")
    def _is_complete(self) -> OidcConfig:
        if self.issuer and not self.audience:
            raise ValueError("should have an audience: without one, tokens for other services would be accepted")
        if self.issuer and not self.roles:
            raise ValueError("should have roles: without one, no token has a scope")
        return self


def check_provider_address(value: str) -> str:
    """Return an address of a provider. Raises `ValueError` if keys from there can't be trusted."""
    expected = "should be an https:// address, or http:// on loopback"
    check_http_address(value, expected)
    parts = urlsplit(value)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ValueError(expected)
    return value
