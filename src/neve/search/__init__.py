"""Full-text search: which files may hold a word, told by a table of filters."""
