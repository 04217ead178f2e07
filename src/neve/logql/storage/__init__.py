"""Lines and streams of the table `logs`."""
