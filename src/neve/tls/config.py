"""Settings of TLS: the certificates of Neve's ports, and those of its clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from neve.model.settings import Section


class TlsConfig(Section):
    """Certificate of a port."""

    enabled: bool = Field(True, description="false: plain text on this port, even if `tls` has a certificate")
    certificate: str = Field(
        "", description="PEM file of the certificate, followed by intermediate ones; empty: that of the section `tls`"
    )
    key: str = Field("", description="PEM file of the certificate's private key, without a passphrase")
    client_ca: str = Field(
        "",
        description="PEM file of the authorities whose certificates clients must present (mutual TLS); empty: clients "
        "need none",
    )
    min_version: Literal["1.2", "1.3"] = Field(
        "1.2", description="oldest TLS version; 1.3 requires receiver.grpc to be false, because gRPC accepts 1.2 too"
    )

    @model_validator(mode="after")
    def _has_pair(self) -> TlsConfig:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("should have both certificate and key, or neither")
        if self.client_ca and not self.certificate:
            raise ValueError("should have certificate and key if client_ca is set")
        return self

    @property
    def is_on(self) -> bool:
        """True if the port uses TLS."""
        return self.enabled and bool(self.certificate)

    @property
    def verifies_clients(self) -> bool:
        """True if clients must present a certificate."""
        return self.is_on and bool(self.client_ca)

    @property
    def scheme(self) -> str:
        """The scheme of the port's addresses."""
        return "https" if self.is_on else "http"


class ClientTlsConfig(Section):
    """Certificates of commands with --server."""

    ca_file: str = Field("", description="PEM file with trusted certificates; empty: the system's")
    certificate: str = Field(
        "", description="PEM file of the certificate to present to a server that requires one; empty: none"
    )
    key: str = Field("", description="PEM file of the certificate's private key, without a passphrase")

    @model_validator(mode="after")
    def _has_pair(self) -> ClientTlsConfig:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("should have both certificate and key, or neither")
        return self
