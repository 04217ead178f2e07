"""A child process that does what it is told, for tests."""

import os
import sys
import time

from neve.lake.child_process import Header, serve_requests

KEPT: list[bytearray] = []


def handle(header: Header, body: bytes) -> tuple[Header, bytes]:
    """Do what the header says."""
    print("chatter on standard output")  # noqa: T201
    match header["do"]:
        case "allocate":
            return {"bytes": len(bytearray(header["bytes"]))}, b""
        case "keep":
            KEPT.append(bytearray(header["bytes"]))
        case "die":
            os.kill(os.getpid(), header["signal"])
        case "look around":
            folder = os.getcwd()
            return {"environment": dict(os.environ), "folder": folder, "files": os.listdir(folder)}, b""
        case "hang":
            time.sleep(600)
    return {"pid": os.getpid()}, body


if __name__ == "__main__":
    serve_requests(handle, int(sys.argv[1]))
