"""Query logs of every engine, each read into the same records."""
