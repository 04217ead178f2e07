"""Tests of OTAP rows on their way to and from the lake."""
