"""Real parts that tests run against: each starts on a free loopback port and is stopped by its process id."""
