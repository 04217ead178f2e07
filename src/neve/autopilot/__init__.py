"""The autopilot: layouts of tables proposed from the queries that are asked, proven on a branch, then merged."""
