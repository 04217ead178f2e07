"""The lake's logs and spans as a folder of OTAP Parquet."""
