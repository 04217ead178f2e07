"""Small series for tests of PromQL."""

from collections.abc import Sequence

from neve.promql.engine import Engine, Result
from neve.promql.evaluator import Options
from neve.promql.labels import make_labels
from neve.promql.series import MemorySource

MINUTE = 60_000


Values = dict[str, Sequence[float | None]]


def make_engine(series: Values, gap_ms: int = MINUTE, options: Options | None = None) -> Engine:
    """Return an engine over series such as `{"x a=1 b=2": [1, 2, None, 4]}`, with a sample in each gap."""
    source = MemorySource()
    for text, values in series.items():
        name, *pairs = text.split()
        labels = make_labels({"__name__": name, **dict(pair.split("=", 1) for pair in pairs)})
        source.add(labels, [(index * gap_ms, value, 0) for index, value in enumerate(values) if value is not None])
    return Engine(source, options or Options())


def as_dict(result: Result) -> dict[str, float]:
    """Return an instant vector by its labels."""
    found = {}
    for one in result.series:
        [(_, value)] = one.floats
        found[" ".join(f"{name}={text}" for name, text in one.labels)] = value
    return found


def as_points(result: Result) -> dict[str, list[tuple[int, float]]]:
    """Return the floats of a range query by their labels."""
    return {" ".join(f"{name}={text}" for name, text in one.labels): one.floats for one in result.series}
