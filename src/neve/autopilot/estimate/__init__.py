"""Estimate of the bytes that queries read under a layout, from manifests and a sample of rows."""
