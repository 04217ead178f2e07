"""Compaction: small files become files of the target size, deletes are applied, rows are laid out; no row is lost."""
