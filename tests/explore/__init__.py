"""Tests of answers about traces and services."""
