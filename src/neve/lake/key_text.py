"""The text of an API key: made, taken apart, hashed. Pure, apart from the randomness of a new one."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field

ID_BYTES = 6
SECRET_BYTES = 25  # 200 bits, which is a whole number of base32 letters
SHAPE = re.compile(r"neve_([0-9a-f]{12})_([a-z2-7]{40})")
ID_SHAPE = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class KeyText:
    """A key as its owner holds it; the secret is not shown by accident."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """What the owner sends."""
        return f"neve_{self.id}_{self.secret}"


def new_key() -> KeyText:
    """A key that nobody can guess."""
    secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().lower()
    return KeyText(secrets.token_hex(ID_BYTES), secret)


def parse_key(text: str | bytes) -> KeyText | None:
    r"""The parts of a key; none where the text is not one, whatever it is.

    >>> parse_key("neve_0123456789ab_" + 40 * "a")
    KeyText(id='0123456789ab')
    >>> parse_key(b"\xff"), parse_key("neve_0123456789ab_short")
    (None, None)
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # never fails; what is not ASCII is no key either way
    match = SHAPE.fullmatch(text)
    return KeyText(match[1], match[2]) if match else None


def hash_secret(secret: str) -> str:
    """What is stored of a secret.

    A slow, salted hash defends passwords that people think up. A secret of 200 random bits can't be guessed however
    quick the hash is, and no two are the same; and a quick hash can be checked with every request.

    >>> hash_secret("a")[:16]
    'ca978112ca1bbdca'
    """
    return hashlib.sha256(secret.encode()).hexdigest()
