"""Benchmarks: two things in one run, as ratios. `make bench`, or `make bench BENCH=decode`."""
