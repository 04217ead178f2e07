"""Evaluations of Prometheus' corpus that give another result, with the reason."""

_STATS_ONLY = (
    "Prometheus reads only counts and sums here, and that reader marks a reset as certain. "
    "The storage alone says that it is unknown, so there is no conflict to warn about."
)

KNOWN_MISMATCHES: dict[str, str] = dict.fromkeys(
    (
        "native_histograms:1857",
        "native_histograms:1862",
        "native_histograms:1867",
        "native_histograms:1872",
        "native_histograms:1880",
        "native_histograms:1885",
        "native_histograms:1947",
        "native_histograms:1951",
        "native_histograms:1955",
    ),
    _STATS_ONLY,
)
