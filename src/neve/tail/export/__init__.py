"""Where kept traces go: destinations that take batches of spans, and how far each of them is."""
