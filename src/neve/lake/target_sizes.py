"""What a file's size means against the size that files should have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetSizes:
    """The sizes that part fragments, undersized, good and oversized files of a target size."""

    target: int

    @property
    def fragment(self) -> int:
        """The largest fragment.

        >>> TargetSizes(128).fragment
        16
        """
        return self.target // 8

    @property
    def small(self) -> int:
        """The largest undersized file."""
        return self.target * 3 // 4

    @property
    def large(self) -> int:
        """The largest file that is not split."""
        return self.target * 9 // 5

    @property
    def stretched(self) -> int:
        """The size that an output may have instead of one output more: a tenth above the target."""
        return self.target * 11 // 10

    def outputs(self, size: int) -> int:
        """How many files this many bytes become.

        >>> [TargetSizes(100).outputs(size) for size in (0, 99, 109, 120, 180, 330)]
        [1, 1, 1, 2, 2, 4]
        """
        if size < self.target:
            return 1
        whole, rest = divmod(size, self.target)
        if rest <= self.small and size < whole * self.stretched:
            return whole
        return whole + (1 if rest else 0)
