"""The sampler: k weighted representatives of each group and window, each with the count that it stands for."""
