"""OTAP Parquet sampled on Spark: what is kept is what the reference keeps, and it is written as valid OTAP."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client import REGISTRY

from neve.errors import ConfigError, InputError, InvalidWeight, LeaseTaken
from neve.reservoir.otap.job import Publisher
from neve.reservoir.windows import NANOS
from neve.state.leases import hold_worker_lease
from tests.otap.stars import Event, Log, Span, make_star
from tests.reservoir.otap.contents import Told, by_name, check_valid, contents, files_of, numbered, told
from tests.reservoir.otap.expected import counts, expected, service_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.reservoir.otap.job import FolderSampler

    Sampler = Callable[..., FolderSampler]

OTHER_PART = "0d1f8f5e-1111-4222-8333-444455556666"
WEIGHTS = (None, 2.5, "7", 3, 120.0)


def mixed(count: int = 60) -> list[Log]:
    """Logs of two services and of none, in two zones, with weights of every type; some have no attribute, so no id."""
    return [
        replace(
            one,
            resource={"zone": "a"} if number % 4 else {},
            severity_number=number % 2 * 9,
            attributes={} if number % 5 == 0 else one.attributes,
            weight=WEIGHTS[number % 5],
        )
        for number, one in enumerate(numbered(count, ("shop", "cart", None)))
    ]


def two_parts(folder: Path) -> list[Log]:
    """Two parts with equal ids, one with dictionaries and one without."""
    records = mixed()
    make_star(folder, logs=records[:36])
    make_star(folder, logs=records[36:], part=OTHER_PART, dictionary=False)
    return records


def check_sample(folder: Path, records: list[Any], sample: dict[str, float], signal: str = "logs") -> None:
    """A folder holds these records as they were, each with its count, and is valid."""
    given = {one.body if isinstance(one, Log) else one.name: one for one in records}
    found = by_name(contents(folder, signal))
    assert found == {name: told(given[name], found[name].count) for name in sample}
    assert counts(folder, signal) == pytest.approx(sample, rel=1e-12)
    check_valid(folder, signal)


def counted(name: str) -> float:
    """What the sampler tells Prometheus."""
    return REGISTRY.get_sample_value(f"neve_reservoir_{name}_total", {"signal": "logs"}) or 0.0


def zone_and_service(record: Told) -> str:
    """Two names; what is missing has one too."""
    known = dict(record.resource)
    return f"{known.get('service.name', '(no name)')} / {known.get('zone', '(no name)')}"


def test_what_is_kept_is_what_the_reference_keeps(sampler: Sampler, tmp_path: Path) -> None:
    """So many of each service, of those without a name too; over two parts, with ids and without, by their weights."""
    records = two_parts(tmp_path / "in")
    job = sampler(k=7, lease_seconds=30)
    kept = counted("kept")
    result = job.run()
    assert counted("kept") == kept + 21
    sample = expected(tmp_path / "in", job.config)
    assert (result.records, result.kept_records, len(sample)) == (60, 21, 21)
    check_sample(tmp_path / "out", records, sample)
    assert all(type(one.count) is float for one in contents(tmp_path / "out"))
    again = sampler(k=7).run()
    assert (again.windows, again.current) == ((), 1)
    # Another run of the same gives the same bytes.
    sampler("twin", k=7).run()
    assert files_of(tmp_path / "out") == files_of(tmp_path / "twin")


@pytest.mark.parametrize(
    ("settings", "group_of"),
    [
        ({"by": ("service.name", "zone"), "ids": "renumber", "weights": "one"}, zone_and_service),
        ({"method": "exact_total", "adjusted_count": "string"}, service_of),
    ],
)
@pytest.mark.long
def test_other_groups_and_methods(
    sampler: Sampler, tmp_path: Path, settings: dict[str, Any], group_of: Callable[[Told], str | None]
) -> None:
    """Several names, weights that do not count; and totals that are exact."""
    records = two_parts(tmp_path / "in")
    job = sampler(k=6, **settings)
    job.run()
    sample = expected(tmp_path / "in", job.config, group_of)
    check_sample(tmp_path / "out", records, sample)
    if job.config.method == "exact_total":
        assert sum(counts(tmp_path / "out").values()) == pytest.approx(12 * (1 + 2.5 + 7 + 3 + 120), rel=1e-12)
    if job.config.adjusted_count == "string":
        assert all(type(one.count) is str for one in contents(tmp_path / "out"))


def test_groups_by_a_column(sampler: Sampler, tmp_path: Path) -> None:
    """By the records' severity, in a flat folder; a column that is no name of a group is refused."""
    records = mixed()
    make_star(tmp_path / "in", logs=records, flat=True)
    severities = {one.body: str(one.severity_number) for one in records}
    job = sampler(k=8, by=("severity_number",))
    job.run()
    sample = expected(tmp_path / "in", job.config, lambda record: severities[record.name])
    assert len(sample) == 16
    check_sample(tmp_path / "out", records, sample)
    with pytest.raises(ConfigError, match=r"reservoir.by has trace_id, which can't define groups"):
        sampler("other", k=8, by=("trace_id",)).run()


def test_both_conventions_of_ids_give_one_sample(sampler: Sampler, tmp_path: Path) -> None:
    """Batches as the exporter writes them, and dense ids with parents of 16 bits: the same records, valid both."""
    # In the order of services within a batch, so that both conventions number the records alike.
    records = [one for first in range(0, 80, 20) for one in sorted(numbered(80)[first : first + 20], key=_service)]
    records = [replace(one, service=_service(one), weight=2.0) for one in records]
    make_star(tmp_path / "in", logs=records, convention="exporter", batch=20)
    paths = make_star(tmp_path / "dense", logs=records)
    for table in ("log_attrs", "resource_attrs"):
        (path,) = paths[table]
        rows = pq.read_table(path, partitioning=None)
        narrow = rows.column("parent_id").cast(pa.uint16())
        pq.write_table(rows.set_column(0, "parent_id", narrow), path)
    repaired = sampler(k=6).run()
    plain = sampler("plain", "dense", k=6).run()
    assert [one.windows[0].convention for one in (repaired, plain)] == ["exporter", "specification"]
    assert by_name(contents(tmp_path / "out")) == by_name(contents(tmp_path / "plain"))
    assert repaired.kept_records == 18
    check_valid(tmp_path / "out")


def _service(record: Log) -> str:
    return f"s{int(str(record.body)[1:]) % 3}"


def test_spans_are_sampled_with_all_that_hangs_on_them(sampler: Sampler, tmp_path: Path) -> None:
    """Events and their attributes too; the weight is that of the span."""
    records = [
        Span(
            time_ns=number,
            service="ab"[number % 2],
            name=f"r{number}",
            attributes={"n": number},
            weight=1.0 + number,
            events=(Event("e", attributes={"x": number}),) if number % 3 else (),
        )
        for number in range(30)
    ]
    make_star(tmp_path / "in", spans=records)
    job = sampler(k=4, signal="spans")
    job.run()
    check_sample(tmp_path / "out", records, expected(tmp_path / "in", job.config, signal="spans"), "spans")


def test_late_files_bring_their_window_again(sampler: Sampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a run dies in it, the result is that of one on all files at once; other windows are left alone."""
    early = numbered(40, ("shop", "cart"))
    late = [replace(one, body=f"late {one.body}") for one in numbered(10, ("shop",))]
    make_star(tmp_path / "in", logs=early)
    settings = {"k": 3, "window_seconds": 20}
    first = sampler(**settings).run()
    assert [one.reason for one in first.windows] == ["not sampled yet"] * 2
    before = files_of(tmp_path / "out")
    make_star(tmp_path / "in", logs=late, part=OTHER_PART)
    assert [planned.reason for planned in sampler(**settings).plan().to_sample] == ["1 late file"]
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_remove", die)
        with pytest.raises(KeyboardInterrupt):
            sampler(**settings).run()
    second = sampler(**settings).run()
    assert [(one.window, one.reason) for one in second.windows] == [
        ("19700101T000000Z", "an earlier run was interrupted")
    ]
    assert second.current == 1
    sampler("fresh", **settings).run()
    again, fresh = files_of(tmp_path / "out"), files_of(tmp_path / "fresh")
    assert sorted(again.values()) == sorted(fresh.values())
    assert before.items() & again.items()
    # Everything of the source may go: what was kept of it stays, and that is told.
    shutil.rmtree(tmp_path / "in")
    make_star(tmp_path / "in", logs=[Log(time_ns=100 * NANOS, body="r", attributes={"n": 1})])
    last = sampler(**settings).run()
    assert (len(last.windows), last.gone) == (1, 2)


def die(*_arguments: object) -> None:
    """Instead of a step."""
    raise KeyboardInterrupt


def test_one_run_of_a_target_at_a_time(sampler: Sampler, tmp_path: Path) -> None:
    """However its folder is written."""
    make_star(tmp_path / "in", logs=numbered(1))
    job = sampler("out/")
    with (
        hold_worker_lease(job.documents, f"reservoir:logs:{tmp_path}/out", seconds=60, what="test"),
        pytest.raises(LeaseTaken, match="is held by"),
    ):
        job.run()


def test_a_sample_of_a_sample_has_chances_of_its_own(sampler: Sampler, tmp_path: Path) -> None:
    """The second stage keeps what the reference keeps of the first, by salts and keys that the first had not."""
    make_star(tmp_path / "in", logs=mixed())
    first = sampler("out", k=9)
    first.run()
    second = sampler("second", "out", k=4, by=())
    second.run()
    sample = expected(tmp_path / "out", second.config, lambda _record: None)
    assert len(sample) == 4
    assert counts(tmp_path / "second") == pytest.approx(sample, rel=1e-12)


def test_weights_that_cannot_be_are_refused_by_name(sampler: Sampler, tmp_path: Path) -> None:
    """Nothing of their window is published, and other windows have nothing to do with it; or they count as 1."""
    records = [replace(one, weight=2.0) for one in numbered(40)]
    records[25] = replace(records[25], weight="many")
    records[26] = replace(records[26], weight=-1)
    make_star(tmp_path / "in", logs=records)
    settings = {"window_seconds": 20}
    words = r'weight of record \{"part":"[0-9a-f-]+","id":2[56]\} is (many|-1), expected a finite number above 0'
    failures = counted("failures")
    with pytest.raises(InvalidWeight, match=words):
        sampler(k=5, **settings).run()
    assert counted("failures") == failures + 1
    assert {int(one.time_ns // NANOS) // 20 for one in contents(tmp_path / "out")} == {0}
    with pytest.raises(InvalidWeight, match=r"record 25 of logs has sampling.adjusted_count = 'many'"):
        sampler("passed", **settings).run()
    ones = sampler("ones", k=30, invalid_weights="one", **settings).run()
    assert [one.counted_as_one for one in ones.windows] == [0, 2]
    assert sum(counts(tmp_path / "ones").values()) == pytest.approx(78, rel=1e-12)


def test_ids_that_come_twice_are_refused(sampler: Sampler, tmp_path: Path) -> None:
    """In one file or in two files of a part: nobody can tell whose the attributes are, and nothing is published."""
    records = numbered(6)
    make_star(tmp_path / "in", logs=[*records, replace(records[0], id=3)])
    make_star(tmp_path / "two", logs=records, millis=1)
    make_star(tmp_path / "two", logs=records[:1], millis=2)
    for source in ("in", "two"):
        with pytest.raises(InputError, match=r"two records of logs have the id [03] in the part 6f9619ff"):
            sampler(f"{source} out", source, k=2).run()
        assert not files_of(tmp_path / f"{source} out")


def test_nothing_to_sample(sampler: Sampler, tmp_path: Path) -> None:
    """A folder whose files hold no record has no window; one without such files is an error."""
    (path,) = make_star(tmp_path / "in", logs=numbered(1))["logs"]
    pq.write_table(pq.read_table(path, partitioning=None).slice(0, 0), path)
    assert sampler(k=2).run().windows == ()
    with pytest.raises(InputError, match=r"no such folder"):
        sampler(source="nowhere", k=2).run()
    with pytest.raises(InputError, match=r"has no folder spans"):
        sampler(signal="spans", k=2).run()
    with pytest.raises(ConfigError, match=r"reservoir.target is the source"):
        sampler(target="in/", k=2).run()


def test_folders_with_strange_names(sampler: Sampler, tmp_path: Path) -> None:
    """A bracket or a star is no pattern here."""
    records = mixed(12)
    make_star(tmp_path / "a [1] {x} * %20", logs=records)
    job = sampler("out [2]", "a [1] {x} * %20", k=2)
    job.run()
    check_sample(tmp_path / "out [2]", records, expected(tmp_path / "a [1] {x} * %20", job.config))
