"""A race: one process changes a table, others compact it and are killed; the rows are those of a run without them.

`rows`, `changes`, `draws`, `deaths`, `verdict` and `outcome` are pure; the other modules write, compact, kill and read.
"""
