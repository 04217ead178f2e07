"""Questions that a part answers once it is ready."""

import http.client
import socket

from tests.parts.process import HOST

TIMEOUT_SECONDS = 30.0


def listens(port: int) -> bool:
    """Tell whether something accepts connections."""
    with socket.create_connection((HOST, port), TIMEOUT_SECONDS):
        return True


def reply(port: int, question: bytes, size: int) -> bytes:
    """Return the first bytes that come back for a question, fewer than `size` when the other side hangs up."""
    received = b""
    with socket.create_connection((HOST, port), TIMEOUT_SECONDS) as connection:
        connection.sendall(question)
        while len(received) < size and (more := connection.recv(size - len(received))):
            received += more
    return received


def serves(port: int, path: str) -> bool:
    """Tell whether an HTTP server answers with anything but its own failure."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status < http.client.INTERNAL_SERVER_ERROR
    except http.client.HTTPException:
        return False
    finally:
        connection.close()
