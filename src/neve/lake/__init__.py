"""The outside: the Spark session, the catalog, the tables, the files and the commits."""
