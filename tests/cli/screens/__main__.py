"""Write the screens again."""

from tests.cli.screens import write_screens

write_screens()
