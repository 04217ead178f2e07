"""Numbers in the words of a reason."""

from __future__ import annotations

UNITS = ("KB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes as people say them.

    >>> size(900), size(1536), size(512 * 1024 * 1024)
    ('900 B', '1.5 KB', '512 MB')
    """
    if count < 1024:
        return f"{count:.0f} B"
    value = float(count)
    for unit in UNITS:
        value /= 1024
        if value < 1024 or unit == UNITS[-1]:
            break
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def number(count: int, what: str) -> str:
    """A count with its noun.

    >>> number(1, "file"), number(12345, "file")
    ('1 file', '12,345 files')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def money(dollars: float) -> str:
    """Dollars, however few.

    >>> money(12.345), money(0.00012)
    ('$12.35', '$0.00012')
    """
    return f"${dollars:,.2f}" if dollars >= 0.1 else f"${dollars:.2g}"


def share(part: float) -> str:
    """A share of a whole.

    >>> share(0.123)
    '12 %'
    """
    return f"{100 * part:.0f} %" if part >= 0.01 or not part else f"{100 * part:.2g} %"
