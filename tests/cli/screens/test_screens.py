"""Screens of commands look as they did when somebody last read them."""

import pytest

from tests.cli.screens import FOLDER, SCREENS, WIDTHS, render


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_it_was_read(name: str, width: int) -> None:
    """In a narrow and in a wide terminal; `python -m tests.cli.screens` writes the files again."""
    screen = render(name, width)
    assert screen == (FOLDER / f"{name}_{width}.txt").read_text()
    assert max(map(len, screen.splitlines())) <= width


def test_every_file_has_its_screen() -> None:
    """None is left of a screen that there is no longer."""
    names = {f"{name}_{width}" for name in SCREENS for width in WIDTHS}
    assert {path.stem for path in FOLDER.glob("*.txt")} == names
