"""OTAP folders: sample a folder of OTAP Parquet into a smaller one, and export rows of the lake as one."""
