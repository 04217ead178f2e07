"""An OpenID Connect provider (oidc-provider-mock), which issues ID tokens by the authorization code flow."""

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

import urllib3

from tests.parts.probe import serves
from tests.parts.process import HOST, Part, free_port, running, scratch

ABSENT = "identity provider: not installed (pip install oidc-provider-mock)"
CALLBACK = "http://127.0.0.1/callback"


@dataclass(frozen=True)
class IdentityProvider:
    """A running provider. Its signing keys are new with each start."""

    port: int

    @property
    def issuer(self) -> str:
        """The claim `iss` of its tokens."""
        return f"http://{HOST}:{self.port}"

    def sign_in(self, subject: str, client: str = "neve") -> str:
        """Sign a user in as a browser and a client do, and return the ID token."""
        pool = urllib3.PoolManager(retries=False)
        asked = {"client_id": client, "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid"}
        answer = pool.request(
            "POST", f"{self.issuer}/oauth2/authorize?{urlencode(asked)}", fields={"sub": subject}, redirect=False
        )
        code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        headers = {**urllib3.make_headers(basic_auth=f"{client}:secret")}
        reply = pool.request(
            "POST", f"{self.issuer}/oauth2/token", fields=form, headers=headers, encode_multipart=False
        )
        token: str = json.loads(reply.data)["id_token"]
        return token


def missing() -> str | None:
    """Say why the provider can't run here, or None when it can."""
    return None if importlib.util.find_spec("oidc_provider_mock") else ABSENT


@contextmanager
def identity_provider(
    users: Sequence[Mapping[str, object]], *, port: int = 0, token_seconds: int = 3600
) -> Iterator[IdentityProvider]:
    """Run a provider with users; each is its claims, with `sub`."""
    port = port or free_port()
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    command += [f"--token-max-age={token_seconds}"]
    command += [part for user in users for part in ("--user-claims", json.dumps(user))]
    with scratch("identity-provider") as folder:
        part = Part("identity provider", command, lambda: serves(port, "/jwks"), folder)
        with running(part):
            yield IdentityProvider(port)
