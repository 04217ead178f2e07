"""Planning of compaction: measures and candidate files in, a plan within limits and budgets out."""
