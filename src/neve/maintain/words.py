"""Numbers in words that a person reads."""


def counted(count: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "file of deletes")
    ('1 row', '2,000 rows', '2 files of deletes')
    """
    head, _, rest = thing.partition(" ")
    return f"{count:,} {head}{'' if count == 1 else 's'}{' ' + rest if rest else ''}"
