"""The soak: a real `neve serve` under a steady load for minutes, watched, killed on request, and judged at the end.

`plan`, `sample`, `tally`, `backing`, `recovery` and `verdict` are pure; the other modules start, send, look,
kill and read.
"""
