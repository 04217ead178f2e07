"""A target that misbehaves, to prove that it would be noticed."""

from __future__ import annotations

import itertools
import time

from tests.fuzz.child import Target

HOG_BYTES = 300 * 1024 * 1024
LOOP_SECONDS = 60


def misbehave(data: bytes) -> None:
    """Do what an input says."""
    match data:
        case b"raise":
            raise KeyError("nobody has foreseen this")
        case b"take":
            kept = bytearray(b"x") * HOG_BYTES
            kept[0] = 0
        case b"loop":
            began = time.process_time()
            while time.process_time() - began < LOOP_SECONDS:
                pass


SEEDS = (b"a", b"b", b"c")
_calls = itertools.count()


def remember(_data: bytes) -> None:
    """Misbehave because of the input before, not because of this one."""
    if next(_calls) == len(SEEDS) + 1:  # a process runs the seeds first
        raise KeyError("this is the second input")


TARGETS = {
    "misbehaving": Target("misbehaving", misbehave, (), tuple, lambda _seeded, given: given),
    "remembering": Target("remembering", remember, (), lambda: SEEDS, lambda _seeded, given: given),
}
