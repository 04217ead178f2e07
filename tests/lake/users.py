"""Code run as another user of the machine, which only root may do."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGER = 65_534  # nobody
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users: only root may act as one")


def as_user(uid: int, work: Callable[[], Any]) -> Any:
    """What some work gives, a value of JSON, when another user does it in a process of its own."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child does not use
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(writer, json.dumps(work()).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(told)


@contextmanager
def temporary_folder_of_all() -> Iterator[Path]:
    """A folder like /tmp, where every user may make files; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="neve-test-"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
