"""TLS from files: who is believed, and what is said when a file is wrong."""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path

import pytest

from journal.errors import Invalid
from journal.net.tls import TlsFiles, client_context, reload_context, server_context

SOURCE = Path(__file__).parent / "server" / "certificates"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The certificates and keys, as they should lie there."""
    for source in SOURCE.glob("*.*"):
        copied = Path(shutil.copy(source, tmp_path))
        copied.chmod(0o600 if copied.suffix == ".key" else 0o644)
    return tmp_path


def own(files: Path, name: str = "daemon") -> TlsFiles:
    return TlsFiles(files / f"{name}.pem", files / f"{name}.key")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A handshake without sockets."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    two = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    done = set[ssl.SSLObject]()
    for _ in range(10):
        for side in two:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
        if len(done) == 2:
            two[1].write(b"x")  # TLS 1.3 tells of a refused client's certificate with what comes next
            two[0].read(1)
            return two
    raise AssertionError("no end")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_that_knows_the_authority(files: Path, name: str) -> None:
    """By name and by address."""
    one, _ = shake_hands(server_context(own(files)), client_context(ca=files / "ca.pem"), name)
    assert one.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(("name", "ca"), [("elsewhere", "ca.pem"), ("localhost", "other-ca.pem"), ("localhost", None)])
def test_a_client_does_not_believe_others(files: Path, name: str, ca: str | None) -> None:
    """Another name, another authority, one that the system does not know."""
    client = client_context(ca=None if ca is None else files / ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(own(files)), client, name)


def test_old_versions_are_refused(files: Path) -> None:
    """TLS 1.2 at least, on both sides."""
    server, client = server_context(own(files)), client_context(ca=files / "ca.pem")
    for context in (server, client):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake_hands(server, client, "localhost")[0].version() == "TLSv1.2"


def test_a_daemon_may_want_certificates_of_clients(files: Path) -> None:
    """Without one, or with one of nobody's, there is no connection."""
    server = server_context(own(files)._replace(ca=files / "ca.pem"))
    known = client_context(ca=files / "ca.pem", certificate=files / "client.pem", key=files / "client.key")
    _, other = shake_hands(server, known, "localhost")
    assert other.getpeercert()["subject"] == ((("commonName", "backend"),),)  # type: ignore[index]
    with pytest.raises(ssl.SSLError):
        shake_hands(server, client_context(ca=files / "ca.pem"), "localhost")
    strict = server_context(own(files)._replace(ca=files / "other-ca.pem"))
    with pytest.raises(ssl.SSLError):
        shake_hands(strict, known, "localhost")


def test_key_and_certificate_in_one_file(files: Path) -> None:
    """Which is a key's file then: nobody else may read it."""
    both = files / "both.pem"
    both.write_bytes((files / "daemon.pem").read_bytes() + (files / "daemon.key").read_bytes())
    both.chmod(0o600)
    shake_hands(server_context(TlsFiles(both)), client_context(ca=files / "ca.pem"), "localhost")
    both.chmod(0o644)
    with pytest.raises(Invalid, match=r"0644.*chmod 0600"):
        server_context(TlsFiles(both))


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "said"),
    [
        ("missing.pem", "daemon.key", None, "the certificate .*missing.pem cannot be read: No such file"),
        ("daemon.pem", "missing.key", None, "the key .*missing.key cannot be read: No such file"),
        ("daemon.pem", None, None, "the key .*daemon.pem is no PEM file with a PRIVATE KEY"),
        ("daemon.key", "daemon.key", None, "the certificate .*daemon.key is no PEM file with a CERTIFICATE"),
        ("daemon.pem", "client.key", None, "is not that of the certificate .*daemon.pem"),
        ("daemon.pem", "daemon-locked.key", None, "passphrase"),
        ("daemon.pem", "daemon.key", "missing.pem", "the authorities' file .*missing.pem cannot be read"),
        ("daemon.pem", "daemon.key", "daemon.key", "the authorities' file .*daemon.key is no PEM"),
        ("torn.pem", "daemon.key", None, "torn.pem and the key .* cannot be used"),
        ("daemon.pem", "torn.key", None, "torn.key cannot be used"),
        ("daemon.pem", "daemon.key", "torn.pem", "the authorities' file .*torn.pem cannot be used"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(files: Path, certificate: str, key: str | None, ca: str | None, said: str) -> None:
    """Which file, and why; and nobody is asked for a passphrase."""
    for torn in ("daemon.pem", "daemon.key"):
        lines = (files / torn).read_bytes().splitlines(keepends=True)
        (files / torn.replace("daemon", "torn")).write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[-1])
    (files / "torn.key").chmod(0o600)
    with pytest.raises(Invalid, match=said):
        server_context(TlsFiles(files / certificate, key and files / key, ca and files / ca))


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o644])
def test_a_key_that_others_may_read(files: Path, mode: int) -> None:
    """Refused, with its rights and the command that mends it; also a client's."""
    (files / "daemon.key").chmod(mode)
    with pytest.raises(Invalid, match=f"{mode:04o}.*chmod 0600"):
        server_context(own(files))
    (files / "client.key").chmod(mode)
    with pytest.raises(Invalid, match=f"{mode:04o}.*chmod 0600"):
        client_context(ca=files / "ca.pem", certificate=files / "client.pem", key=files / "client.key")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_of_root_and_of_another_user(files: Path) -> None:
    """A group may read root's key, as systems do it that keep keys in one place; another user's key is nobody's."""
    (files / "daemon.key").chmod(0o640)
    server_context(own(files))
    os.chown(files / "daemon.key", 12345, -1)
    with pytest.raises(Invalid, match="belongs to user 12345"):
        server_context(own(files))


def test_a_client_with_a_key_and_no_certificate(files: Path) -> None:
    """Half a pair is a mistake."""
    with pytest.raises(Invalid, match="without a certificate"):
        client_context(ca=files / "ca.pem", key=files / "client.key")


def test_files_are_read_again(files: Path) -> None:
    """New connections see the new certificate; wrong files change nothing."""
    server, trusting = server_context(own(files)), client_context(ca=files / "ca.pem")
    (files / "daemon.pem").write_text("-----BEGIN CERTIFICATE-----\nhalf")
    with pytest.raises(Invalid, match="cannot be used"):
        reload_context(server, own(files))
    shake_hands(server, trusting, "localhost")
    reload_context(server, own(files, "client"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, trusting, "localhost")
