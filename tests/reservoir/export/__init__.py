"""Exports of the lake's rows as OTAP Parquet."""
