"""pandas stays out of a process that defers it, and comes when somebody needs it."""

import subprocess
import sys

import pyarrow as pa
import pytest

from neve.lake.pandas_import import needs_pandas

DEFERRED = """
import sys
from neve.lake.pandas_import import defer_pandas, load_pandas
load_pandas()
defer_pandas()
defer_pandas()
import pyarrow as pa
import pyarrow.dataset
from pyiceberg.io.pyarrow import PyArrowFileIO
pa.array([1, None, 2.5]), pa.array(["a"]), pa.scalar(True), pa.Table.from_pylist([{"a": 1}]).to_pylist()
print("pandas" in sys.modules)
times = pa.array([1], pa.timestamp("ns"))
load_pandas()
load_pandas()
print(times.to_pylist()[0].nanosecond, len(pa.table({"a": [1, 2]}).to_pandas()))
import pandas
print(pa.array(pandas.Series([1.5, None])).null_count, pa.Table.from_pandas(pandas.DataFrame({"a": [1]})).num_rows)
defer_pandas()
import pandas
"""

# The import of pandas waits until the second thread has called `load_pandas` or half a second has passed.
CONCURRENT = """
import sys, threading
from neve.lake.pandas_import import defer_pandas, load_pandas
defer_pandas()
import pyarrow as pa
times = pa.array([1], pa.timestamp("ns"))
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            importing.set()
            returned.wait(0.5)
importing, returned = threading.Event(), threading.Event()
sys.meta_path.insert(1, Slow())
first = threading.Thread(target=load_pandas)
first.start()
importing.wait()
load_pandas()
try:
    print(times.to_pylist()[0].nanosecond)
finally:
    returned.set()
"""


@pytest.mark.slow
def test_pandas_is_imported_when_it_is_needed() -> None:
    """Arrow and pyiceberg work without it, and with it afterwards."""
    ended = subprocess.run([sys.executable, "-c", DEFERRED], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "1", "2", "1", "1"]


@pytest.mark.slow
def test_a_second_thread_waits_until_pandas_is_loaded() -> None:
    """Its results have nanoseconds, too."""
    ended = subprocess.run([sys.executable, "-c", CONCURRENT], capture_output=True, text=True, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["1"], "")


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        (pa.timestamp("ns", "UTC"), True),
        (pa.list_(pa.struct([("a", pa.duration("ns"))])), True),
        (pa.map_(pa.string(), pa.timestamp("ns")), True),
        (pa.timestamp("us", "UTC"), False),
        (pa.struct([("ns", pa.int64())]), False),
    ],
)
def test_results_with_nanoseconds_need_pandas(kind: pa.DataType, needed: bool) -> None:
    """Also inside of nested values."""
    assert needs_pandas(pa.schema([("value", kind)])) is needed
