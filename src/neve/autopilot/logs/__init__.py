"""Query logs: readers of the logs of Trino, ClickHouse, Spark, Iceberg catalogs and Neve."""
