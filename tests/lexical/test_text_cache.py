"""The cache of short texts."""

from neve.lexical.text_cache import MAX_CHARS, cache_short_texts


def test_long_texts() -> None:
    """Results of short texts are remembered, those of long texts are not."""
    calls: list[int] = []

    @cache_short_texts(8)
    def measure(text: str) -> int:
        calls.append(len(text))
        return len(text)

    for _ in range(2):
        assert measure("a" * MAX_CHARS) == MAX_CHARS
        assert measure("a" * (MAX_CHARS + 1)) == MAX_CHARS + 1
    assert calls == [MAX_CHARS, MAX_CHARS + 1, MAX_CHARS + 1]
