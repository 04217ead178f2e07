"""Full-text search: an index table of Bloom filters that finds the files that may contain a word."""
