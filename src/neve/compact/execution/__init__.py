"""Execution of a plan: rewrite groups with Arrow or Spark, verify that no row changed, and publish the new files."""
