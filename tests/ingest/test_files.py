"""The files that a user means: named, in folders, by globs; and the words where there are none."""

import os
from pathlib import Path

import pytest

from neve.errors import InputError
from neve.ingest.files.formats import Format
from neve.ingest.files.source_files import HashedFile, SourceFile, find_files, hash_bytes, hash_files
from neve.lake.config import S3Config

S3 = S3Config()


def make(folder: Path, *names: str) -> None:
    """Empty files, with their folders."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def found(folder: Path, *paths: str, form: Format | None = None) -> list[str]:
    """The files under a folder that these paths name."""
    files = find_files([str(folder / path) for path in paths], S3, form).files
    return [str(Path(file.path).relative_to(folder.resolve())) for file in files]


def test_a_file_is_described(tmp_path: Path) -> None:
    """Its path is absolute, its size and time are the file's; together they tell that it was seen before."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"12345")
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    [file] = find_files([str(path)], S3).files
    assert file == SourceFile(str(path.resolve()), 5, 1_700_000_000_123_456)
    assert file.seen_as == (file.path, file.size, file.modified_us)


def test_a_folder_is_searched_to_the_bottom(tmp_path: Path) -> None:
    """Files come in the order of their paths; what is not telemetry is passed by and named."""
    make(tmp_path, "b.json", "a/deep/x.csv.gz", "README.md", "a/notes.txt")
    seen = find_files([str(tmp_path)], S3)
    assert found(tmp_path, ".") == ["a/deep/x.csv.gz", "b.json"]
    assert [Path(path).name for path in seen.ignored] == ["README.md", "notes.txt"]


def test_hidden_files_are_not_telemetry(tmp_path: Path) -> None:
    """Neither are the marks that other engines leave."""
    make(tmp_path, ".a.json", "_SUCCESS.json", "b.json")
    assert found(tmp_path, ".") == ["b.json"]
    assert find_files([str(tmp_path)], S3).ignored == ()


@pytest.mark.parametrize("folder", [".git", "_temporary/0"])
def test_hidden_folders_are_not_searched(tmp_path: Path, folder: str) -> None:
    """Half-written files of another job are in such folders; a partition may begin with an underscore."""
    make(tmp_path, f"{folder}/a.json", "b.json", "_day=1/c.json")
    assert found(tmp_path, ".") == ["_day=1/c.json", "b.json"]


def test_a_hidden_file_that_is_named_is_meant(tmp_path: Path) -> None:
    """The user knows."""
    make(tmp_path, ".a.json")
    assert found(tmp_path, ".a.json") == [".a.json"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.json", ["a.json", "b.json"]),
        ("[bc].*", ["b.json", "c.csv"]),
        ("**/*.csv", ["c.csv", "d/e/f.csv"]),
        ("d*", ["d/e/f.csv", "d/g.pb"]),
        ("?.csv", ["c.csv"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, names: list[str]) -> None:
    """The usual signs, and folders that match are searched."""
    make(tmp_path, "a.json", "b.json", "c.csv", "d/e/f.csv", "d/g.pb")
    assert found(tmp_path, pattern) == names


def test_a_file_with_brackets_in_its_name_can_be_named(tmp_path: Path) -> None:
    """What exists is meant as it is."""
    make(tmp_path, "logs[1].json")
    assert found(tmp_path, "logs[1].json") == ["logs[1].json"]


def test_a_file_that_is_named_twice_is_taken_once(tmp_path: Path) -> None:
    """By its name, its folder, a glob and a link."""
    make(tmp_path, "a.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")
    assert found(tmp_path, "a.json", "a.*", "./a.json", "link.json") == ["a.json"]


def test_the_home_folder_may_be_written_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde in quotes reaches us as it is."""
    make(tmp_path, "a.json")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [Path(file.path).name for file in find_files(["~/a.json"], S3).files] == ["a.json"]


def test_with_a_format_every_file_counts(tmp_path: Path) -> None:
    """The ending does not matter any more."""
    make(tmp_path, "a.log", "b", "c.json")
    assert found(tmp_path, ".", form=Format.JSON_LINES) == ["a.log", "b", "c.json"]


@pytest.mark.parametrize(
    ("path", "words"),
    [("nothing.json", "nothing.json does not exist"), ("*.csv", "nothing matches"), ("no/folder", "does not exist")],
)
def test_what_is_not_there_is_said(tmp_path: Path, path: str, words: str) -> None:
    """The path is named."""
    with pytest.raises(InputError) as caught:
        find_files([str(tmp_path / path)], S3)
    assert words in caught.value.message
    assert str(tmp_path) in caught.value.message


def test_a_named_file_of_no_known_ending_is_refused(tmp_path: Path) -> None:
    """The hint lists the extensions and the option."""
    make(tmp_path, "a.txt")
    with pytest.raises(InputError, match=r"a\.txt has no known suffix") as caught:
        find_files([str(tmp_path / "a.txt")], S3)
    assert caught.value.hint is not None
    assert all(word in caught.value.hint for word in (".binpb", ".jsonl", ".parquet", ".gz", ".zst", "--format"))


@pytest.mark.parametrize("path", ["http://host/a.json", "gs://bucket/a.json", "file:///a.json"])
def test_other_places_are_refused(path: str) -> None:
    """Only local paths and s3:// are read."""
    with pytest.raises(InputError, match="neither a local path nor an s3:// address"):
        find_files([path], S3)


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    """That is not an error: there may be some tomorrow."""
    assert find_files([str(tmp_path)], S3).files == ()


def test_files_are_known_by_their_bytes(tmp_path: Path) -> None:
    """The same bytes have the same hash under any name; a packed file is hashed as it lies there."""
    content = b"x" * 5_000_000
    for name in ("a.json", "b.csv", "c.json.gz"):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "d.json").write_bytes(content + b"y")
    files = find_files([str(tmp_path)], S3).files
    hashed = [item.content_hash for item in hash_files(S3, files) if isinstance(item, HashedFile)]
    assert hashed[:3] == [hash_bytes(content)] * 3
    assert hashed[3] == hash_bytes(content + b"y") != hashed[0]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """Its place in the answer holds the reason, and the others are hashed."""
    make(tmp_path, "a.json")
    [there] = find_files([str(tmp_path)], S3).files
    gone = SourceFile(str(tmp_path / "gone.json"), 0, 0)
    reason, kept = hash_files(S3, (gone, there))
    assert isinstance(reason, str)
    assert reason.startswith("FileNotFoundError: ")
    assert kept == HashedFile(there, hash_bytes(b""))
