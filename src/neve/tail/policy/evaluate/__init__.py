"""Policy evaluation: decide batches of traces, with the sampling probability and the reason of each decision."""
