"""Access to the lake: catalog, Spark session, tables, files and commits."""
