"""An issuer of tokens under a test's control: signing keys, discovery over HTTP, and tokens with any claims."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from neve.identity.config import OidcConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

AUDIENCE = "neve"
ROLES = {"reader": ["read"], "sender": ["write"], "operator": ["admin"]}


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return one of a few keys; making one takes long."""
    return rsa.generate_private_key(65537, bits)


def public_document(key: Any, **others: Any) -> dict[str, Any]:
    """Return the public part of a key as a JWK."""
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        found = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        found = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        assert isinstance(key, ed25519.Ed25519PrivateKey)
        found = OKPAlgorithm.to_jwk(public, as_dict=True)
    return {**found, **others}


@dataclass
class Issuer:
    """A provider; `keys` are its documents, `requests` the paths that were asked for."""

    port: int = 0
    keys: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    status: int = 200

    @property
    def url(self) -> str:
        """The issuer's address."""
        return f"http://127.0.0.1:{self.port}"

    def config(self, **others: Any) -> OidcConfig:
        """Return settings that accept its tokens."""
        return OidcConfig.model_validate({"issuer": self.url, "audience": [AUDIENCE], "roles": ROLES, **others})

    def claims(self, **others: Any) -> dict[str, Any]:
        """Return the claims of a good token; None removes one."""
        now = int(time.time())
        good = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "exp": now + 3600,
            "iat": now,
            "organization": "acme",
            "roles": ["reader", "sender"],
        }
        return {name: value for name, value in {**good, **others}.items() if value is not None}

    def token(self, key: Any = None, *, alg: str = "RS256", kid: str | None = "one", **claims: Any) -> str:
        """Return a signed token."""
        headers = {"kid": kid} if kid is not None else {}
        return jwt.encode(self.claims(**claims), key or rsa_key(), algorithm=alg, headers=headers)

    def answer(self, path: str) -> bytes:
        """Return the response to a path."""
        self.requests.append(path)
        if path == "/jwks":
            return json.dumps({"keys": self.keys}).encode()
        return json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/jwks", **self.document}).encode()


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Run an issuer with one RSA key."""
    issuer = Issuer(keys=[public_document(rsa_key(), kid="one", use="sig")])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = issuer.answer(self.path)
            self.send_response(issuer.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
