"""Answer queries over metric points from rollups, where the result is the same."""
