"""Erase texts from documents of the state store: reports and histories may quote values of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.state.documents import dump_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.erase.condition import TextTest
    from neve.state.documents import Documents

ERASED = "[erased]"


def erase_documents(
    documents: Documents, spaces: Iterable[str], test: TextTest, *, is_dry_run: bool
) -> tuple[int, tuple[str, ...]]:
    """Replace the texts in all documents that pass the test.

    Return the number of documents, and those that stay: a combination of texts does not say which one to replace, and a
    document that changes all the time can't be replaced.
    """
    found, remaining = 0, []
    for space in spaces:
        for key, value in list(documents.entries(space)):
            if not test.holds(_to_text(value)) and not test.holds(key):
                continue
            found += 1
            if is_dry_run:
                continue
            can_replace = test.is_plain and not any(text in key for text in test.leaves)
            if not can_replace or not documents.swap(space, key, value, replace_texts(value, test.leaves)):
                remaining.append(f"document of the state store in the space {space}")
    return found, tuple(remaining)


def _to_text(value: dict[str, object]) -> str:
    """Return a document as text without escapes of letters beyond ASCII."""
    return "\n".join(_strings(value)) or dump_document(value)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [one for pair in value.items() for part in pair for one in _strings(part)]
    if isinstance(value, list):
        return [one for part in value for one in _strings(part)]
    return []


def replace_texts(value: Any, texts: Sequence[str]) -> Any:
    """Return a value with `[erased]` in place of texts, at any depth, also in keys."""
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, ERASED)
        return value
    if isinstance(value, dict):
        return {replace_texts(key, texts): replace_texts(part, texts) for key, part in value.items()}
    if isinstance(value, list | tuple):  # entries of a map are pairs
        return type(value)(replace_texts(part, texts) for part in value)
    return value
