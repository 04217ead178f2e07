"""Chaos: real processes, killed at random moments under load; afterwards the tables hold what was acknowledged, once.

`exports`, `kills`, `messages`, `verdict` and `outcome` are pure; the other modules start, send, kill and read.
"""
