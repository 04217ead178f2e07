"""Native and classic histograms: arithmetic, quantiles, fractions, trimming."""
