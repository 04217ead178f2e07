"""Write Arrow tables to Iceberg data files without a JVM."""
