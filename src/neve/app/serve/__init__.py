"""`neve serve`: supervises the parts that receive, query and maintain a lake, in threads and in processes."""
