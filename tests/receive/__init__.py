"""Tests of what the receiver decides."""
