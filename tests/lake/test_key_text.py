"""The text of a key: what is made is understood, and nothing else is."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from neve.state import keys
from neve.state.keys import KeyText, generate_key, hash_secret, parse_key

IDS = st.text("0123456789abcdef", min_size=12, max_size=12)
SECRETS = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=40, max_size=40)


def test_the_examples_are_true() -> None:
    """Those in the docstrings."""
    assert doctest.testmod(keys).failed == 0


def test_a_new_key_is_understood_and_is_new() -> None:
    """Its secret has 200 bits, and is not shown with it."""
    made = [generate_key() for _ in range(100)]
    assert [parse_key(key.text) for key in made] == made
    assert len({key.id for key in made}) == len({key.secret for key in made}) == 100
    assert all(len(key.secret) * 5 == 200 for key in made)
    assert all(key.secret not in repr(key) for key in made)


@given(IDS, SECRETS)
def test_a_key_goes_through_text_and_bytes(key_id: str, secret: str) -> None:
    """Both give its parts."""
    key = KeyText(key_id, secret)
    assert parse_key(key.text) == parse_key(key.text.encode()) == key


@given(st.one_of(st.text(), st.binary(), st.from_regex(r"neve_[0-9a-z]*_[0-9a-z_]*\n?", fullmatch=True)))
def test_garbage_is_no_key(garbage: str | bytes) -> None:
    """Nothing is raised, and what is understood is exactly what would be written."""
    found = parse_key(garbage)
    assert found is None or found.text == (garbage if isinstance(garbage, str) else garbage.decode())


@given(IDS, SECRETS, st.integers(0, 57), st.characters())
def test_another_character_makes_another_key_or_none(key_id: str, secret: str, place: int, character: str) -> None:
    """No two texts are the same key."""
    text = KeyText(key_id, secret).text
    changed = text[:place] + character + text[place + 1 :]
    assert (parse_key(changed) == KeyText(key_id, secret)) == (changed == text)


@given(SECRETS, SECRETS)
def test_a_hash_tells_secrets_apart(first: str, second: str) -> None:
    """It is always the same, and does not hold the secret."""
    assert (hash_secret(first) == hash_secret(second)) == (first == second)
    assert len(hash_secret(first)) == 64
    assert first not in hash_secret(first)
