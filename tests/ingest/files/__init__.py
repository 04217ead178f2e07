"""Tests of generic files and plain log files: schemas of other systems, formats of lines, previews."""
