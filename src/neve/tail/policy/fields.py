"""Types of what users write in a policy: values are taken as they are, no text for a number, no number for a text."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from neve.model.section import Section
from neve.tail.policy import durations

INT64 = 1 << 63
INT32 = 1 << 31


def _whole(value: Any) -> Any:
    """The collector takes 5.0 for a whole number too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _duration(value: Any) -> Any:
    """In seconds; a bare number is one of nanoseconds, as in Go."""
    if isinstance(value, str):
        return durations.seconds(value)
    if type(value) is int:
        return value / 1_000_000_000
    raise ValueError(f"got {value!r}, expected {durations.EXPECTED}")


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=-INT64, lt=INT64)]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=INT64)]
Small = Annotated[int, BeforeValidator(_whole), Field(ge=-INT32, lt=INT32)]
Seconds = Annotated[float, BeforeValidator(_duration), Field(ge=0, allow_inf_nan=False)]
Word = Annotated[str, Field(min_length=1)]
Listed = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Texts = Annotated[tuple[str, ...], Listed]
SomeTexts = Annotated[tuple[str, ...], Listed, Field(min_length=1)]


class Shape(Section):
    """A section that takes values as they are: no text for a number, no number for a text."""

    model_config = ConfigDict(strict=True)

    @property
    def oddity(self) -> str:
        """What is allowed and yet strange about it."""
        return ""
