"""Which layout a table should have, why, and what speaks against the others."""
