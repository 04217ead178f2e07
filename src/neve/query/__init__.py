"""Run SQL over the tables of the lake."""
