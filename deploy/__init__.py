"""Everything that deploys Neve; the Python files here generate what tools of others read."""
