"""What is wrong with a condition."""

from __future__ import annotations


class OttlError(ValueError):
    """Raised when a condition can't be read, or asks for what is not supported; `unsupported` names what."""

    def __init__(self, message: str, *, unsupported: str = "", supported: str = "") -> None:
        super().__init__(message)
        self.unsupported = unsupported
        self.supported = supported

    def about(self, policy: str, condition: str) -> str:
        """The message, with the policy's name and the condition."""
        if not self.unsupported:
            return f"OTTL condition of policy {policy!r}: {self}; got {condition!r}"
        supported = f"; supported: {self.supported}" if self.supported else ""
        return f"OTTL {self.unsupported} in policy {policy!r} is not supported{supported}; got {condition!r}"


def unsupported(what: str, supported: str = "") -> OttlError:
    """What is OTTL, but can't be asked here."""
    return OttlError(f"{what} is not supported", unsupported=what, supported=supported)
