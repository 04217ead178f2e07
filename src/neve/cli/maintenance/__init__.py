"""Commands that rewrite tables or build tables from others: compact, maintain, rollup, search, series, autopilot."""
