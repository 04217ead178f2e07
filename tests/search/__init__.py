"""Full-text search: an index may claim too much, and must never miss."""
