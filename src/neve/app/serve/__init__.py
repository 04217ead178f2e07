"""`neve serve`: the parts that receive, answer and tend a lake, kept running in threads and in processes."""
