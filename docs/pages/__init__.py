"""The pages that are made from code: pure functions that return Markdown."""

NOTICE = "<!-- Made from code by `make docs`. Change the code, not this page. -->"
