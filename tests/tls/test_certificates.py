"""Certificates of a port: refused at the start with their setting, and renewed without a restart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from neve.errors import ConfigError
from neve.tls.certificates import LOOK_SECONDS, ServerCertificates, load_certificate
from neve.tls.config import TlsConfig
from tests.tls.authority import Authority, Pair


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority."""
    return Authority(tmp_path)


def make_config(pair: Pair, **others: object) -> TlsConfig:
    """Return the section of a pair."""
    return TlsConfig.model_validate(pair.settings(**others))


def test_a_valid_certificate_is_loaded(authority: Authority) -> None:
    """With its name and its end; the key is in no text of it."""
    pair = authority.issue("neve")
    loaded = load_certificate(make_config(pair, client_ca=str(authority.file)), "receiver.tls")
    assert loaded.name == "neve"
    assert "PRIVATE" not in repr(loaded)
    assert loaded.context.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a, p: p.certificate.unlink(), r"query\.tls\.certificate is '.*neve\.crt': no such file.*PEM"),
        (lambda a, p: p.key.unlink(), r"query\.tls\.key is '.*neve\.key': no such file"),
        (lambda a, p: p.certificate.write_text("x"), r"query\.tls\.certificate is .*expected a PEM file with cert"),
        (lambda a, p: p.key.write_text("x"), r"query\.tls\.key is .*expected a PEM file with a private key"),
        (lambda a, p: a.issue("neve", passphrase=b"x"), r"query\.tls\.key is .*which has a passphrase"),
        (lambda a, p: a.issue("neve", days=-0.5), r"query\.tls\.certificate is .*which expired at 20"),
        (lambda a, p: a.issue("neve", begins=1), r"query\.tls\.certificate is .*which begins at 20"),
        (
            lambda a, p: p.key.write_bytes(a.issue("other").key.read_bytes()),
            r"query\.tls\.key is .*expected the private key of the certificate in ",
        ),
        (lambda a, p: a.file.write_text("none"), r"query\.tls\.client_ca is .*expected a PEM file with cert"),
        (lambda a, p: a.file.unlink(), r"query\.tls\.client_ca is .*no such file"),
    ],
)
def test_unusable_files_are_refused(
    authority: Authority, spoil: Callable[[Authority, Pair], object], message: str
) -> None:
    """The message has the setting, its value, and what was expected."""
    pair = authority.issue("neve")
    config = make_config(pair, client_ca=str(authority.file))
    spoil(authority, pair)
    with pytest.raises(ConfigError, match=message):
        load_certificate(config, "query.tls")


@pytest.mark.parametrize("values", [{"certificate": "a"}, {"key": "a"}, {"client_ca": "a"}])
def test_a_half_section_is_refused(values: dict[str, str]) -> None:
    """A certificate without its key is a mistake, and so are authorities without a certificate."""
    with pytest.raises(ValueError, match="should have"):
        TlsConfig.model_validate(values)


def test_a_public_key_file_is_a_warning(authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that every user of the machine may read is reported, and works."""
    pair = authority.issue("neve")
    pair.key.chmod(0o644)
    ServerCertificates(make_config(pair), "receiver.tls")
    assert "every user of this machine may read the private key" in capsys.readouterr().out


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pass_look(self) -> None:
        """Let the time of the next look come."""
        self.now += LOOK_SECONDS


def test_a_renewed_certificate_is_used(authority: Authority) -> None:
    """At the next look; until then, and without a change, the loaded one stays."""
    clock = Clock()
    certificates = ServerCertificates(make_config(authority.issue("neve", days=1)), "receiver.tls", clock=clock)
    first = certificates.current()
    clock.pass_look()
    assert certificates.current() is first
    authority.issue("neve", days=9)
    assert certificates.current() is first
    clock.pass_look()
    assert certificates.current().expires_at > first.expires_at


def test_files_that_do_not_match_change_nothing(authority: Authority) -> None:
    """Between the two writes of a renewal the earlier certificate stays, and is replaced after the second."""
    clock = Clock()
    pair = authority.issue("neve")
    certificates = ServerCertificates(make_config(pair), "receiver.tls", clock=clock)
    first, other = certificates.current(), authority.issue("other")
    pair.key.write_bytes(other.key.read_bytes())
    clock.pass_look()
    assert certificates.current() is first
    assert certificates.failures == 1
    clock.pass_look()
    assert certificates.failures == 1
    pair.certificate.write_bytes(other.certificate.read_bytes())
    clock.pass_look()
    assert certificates.current().name == "other"


def test_an_expired_renewal_changes_nothing(authority: Authority) -> None:
    """The earlier certificate may still be valid."""
    clock = Clock()
    certificates = ServerCertificates(make_config(authority.issue("neve")), "receiver.tls", clock=clock)
    first = certificates.current()
    authority.issue("neve", days=-0.1)
    clock.pass_look()
    assert certificates.current() is first
