"""Spark: the session, Java and its jars, Arrow tasks on Spark, and tables through Iceberg's Java library."""
