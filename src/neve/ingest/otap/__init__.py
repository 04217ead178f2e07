"""OTAP Parquet into the lake: every root file once, with the rows of other tables that hang on it."""
