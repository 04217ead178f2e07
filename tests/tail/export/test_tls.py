"""Destinations behind TLS: who is trusted gets the spans and the secrets, and nobody else."""

from pathlib import Path
from typing import Any

import pytest

from neve.tail.export.destination import DestinationUnavailable
from neve.tail.export.otlp import OtlpGrpcDestination, OtlpHttpDestination
from tests.tail.export.batches import kept_traces
from tests.tail.export.configs import network
from tests.tail.export.servers import grpc_server, http_server

pytest.importorskip("cryptography", reason="certificates: cryptography is not installed")


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """A certificate that no system trusts."""
    from tests.tail.export.certificates import certificate

    return certificate(tmp_path)


def test_http_with_a_certificate_that_is_trusted(files: Any) -> None:
    """And without; that is away at once, for it will not be trusted in a minute either."""
    with http_server(tls=files) as server:
        trusting = OtlpHttpDestination(network("otlp_http", server.endpoint, ca_file=str(files.certificate)))
        assert trusting.deliver(kept_traces(1, 4), "b").accepted == 4
        trusting.close()
        with pytest.raises(DestinationUnavailable, match="has an invalid certificate"):
            OtlpHttpDestination(network("otlp_http", server.endpoint, headers={"key": "s3cret"})).deliver(
                kept_traces(1, 4), "b"
            )
        assert len(server.asked) == 1


def test_grpc_with_a_certificate_that_is_trusted(files: Any) -> None:
    """And without: no call reaches the server."""
    with grpc_server(tls=files) as server:
        trusting = OtlpGrpcDestination(network("otlp_grpc", server.endpoint, ca_file=str(files.certificate)))
        assert trusting.deliver(kept_traces(1, 4), "b").accepted == 4
        trusting.close()
        doubting = OtlpGrpcDestination(network("otlp_grpc", server.endpoint, retry_seconds=0))
        with pytest.raises(DestinationUnavailable):
            doubting.deliver(kept_traces(1, 4), "b")
        doubting.close()
        assert len(server.asked) == 1
