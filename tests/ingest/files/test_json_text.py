"""JSON files whose documents span lines."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import FileTooLarge
from neve.ingest.files import json_text
from neve.ingest.files.json_text import spans_lines, split_documents
from neve.model.signals import Signal
from tests.ingest.samples import Document, otlp, read, rows
from tests.ingest.samples import json_text as otlp_text

DOCUMENTS: list[Document] = [{"message": "a", "user": {"name": "ann"}}, {"message": "b", "list": [1, {"x": 2}]}]


@pytest.mark.parametrize("broken", ["missing bracket", "missing comma"])
@pytest.mark.parametrize("kind", ["generic", "otlp"])
def test_a_malformed_document_is_one_row_with_its_line_and_column(kind: str, broken: str) -> None:
    """Not one for each of its lines."""
    whole = otlp_text(Signal.LOGS, otlp(Signal.LOGS), indent=1).decode()
    text = json.dumps(DOCUMENTS[1], indent=1) if kind == "generic" else whole
    cut = text.rstrip("}] \n") if broken == "missing bracket" else text.replace(",\n", "\n", 1)
    found = read("logs.json", cut.encode())
    [bad] = found.rejected
    assert (bad.reason, bad.message, bad.payload) == ("malformed_document", 0, cut.encode())
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(cut)
    assert f"malformed JSON at line {caught.value.lineno}, column {caught.value.colno}: " in bad.detail
    assert len(found.messages) == 0


@pytest.mark.parametrize("text", [
    json.dumps(DOCUMENTS, indent=2),
    json.dumps(DOCUMENTS),
    "\n".join(json.dumps(document, indent=2) for document in DOCUMENTS),
    ",\n".join(json.dumps(document, indent=2) for document in DOCUMENTS),
])  # fmt: skip
def test_documents_that_span_lines_are_read(text: str) -> None:
    """A list of records, or records one after the other."""
    found = read("logs.json", text.encode())
    assert ([row["message"] for row in rows(found)], found.rejected) == (["a", "b"], ())


def test_an_error_costs_no_document_before_it() -> None:
    """They are read, and the error has the line of the file."""
    good = json.dumps(DOCUMENTS[0], indent=2)
    found = read("logs.json", f"{good}\n{good}\n{{\n  bad\n}}".encode())
    assert [row["message"] for row in rows(found)] == ["a", "a"]
    line = 2 * len(good.splitlines())
    assert (found.rejected[0].message, found.rejected[0].detail[:29]) == (
        line,
        f"malformed JSON at line {line + 2}, colu"[:29],
    )


def test_elements_of_a_list_that_are_no_records_are_refused_alone() -> None:
    """The others are read."""
    found = read("logs.json", b'[{"message": "a"}, 5, {"message": "b"}]')
    assert [row["message"] for row in rows(found)] == ["a", "b"]
    assert [bad.payload for bad in found.rejected] == [b"5"]


def test_lines_that_were_cut_short_are_lines() -> None:
    """A file that a crash ended, or a first line that a rotation cut."""
    for text in (
        b'{"message": "a"}\n{"message": "b"}\n{"mess',
        b'{"message": "cut\n{"message": "a"}\n{"message": "b"}\n',
    ):
        assert not spans_lines(text)
        assert len(rows(read("logs.json", text))) == 2


def test_values_are_counted_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's reader makes an object of each."""
    monkeypatch.setattr(json_text, "MAX_VALUES", 100)
    with pytest.raises(FileTooLarge, match="more than 100 values"):
        split_documents(b"[\n" + b"{},\n" * 200 + b"{}]")


def test_a_document_that_is_nested_too_deep_is_refused() -> None:
    """The reader's limit is no crash."""
    [bad] = split_documents(b"{\n" + b'"a": [' * 50_000).rejected
    assert bad.reason == "malformed_document"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(), max_size=3), max_size=4),
    st.integers(0, 200),
)
def test_documents_and_rest_are_the_whole_text(documents: list[Document], cut: int) -> None:
    """Whatever is cut off, nothing else is lost."""
    text = "\n".join(json.dumps(document, indent=1) for document in documents)[: cut or None]
    found = split_documents(text.encode())
    pieces = [*found.texts, *(bad.payload.decode() for bad in found.rejected)]
    assert "".join("".join(pieces).split()) == "".join(text.split())
