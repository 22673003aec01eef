"""
TLS: the contexts of a daemon and of its clients, from files.

Y1  TLS 1.2 at least. A client checks the daemon's certificate and its name, always.
Y2  A key that other users may read is refused, and so is one with a passphrase: no person is there to type it.
Y3  Files are tried out before they are used: a daemon that reloads them keeps what it has when they are wrong.
"""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path
from typing import NamedTuple

from journal.errors import Invalid
from journal.net.private_files import check_private

_PEM = b"-----BEGIN "
_BYTES_MAX = 1 << 20


class TlsFiles(NamedTuple):
    """The certificate that a side presents, and the authority that it trusts."""

    certificate: Path
    key: Path | None = None
    """None: it is in the certificate's file."""
    ca: Path | None = None
    """The authority that signs the other side's certificates; a daemon that has one refuses clients without a certificate."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """A daemon's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_own(context, files)
    if files.ca is not None:
        _load_ca(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    *, ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """A client's context; without `ca` the system's authorities are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the name (Y1)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        _load_ca(context, ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certificate is not None:
        _load_own(context, TlsFiles(certificate, key))
    elif key is not None:
        raise Invalid(f"a key ({key}) without a certificate: give both")
    return context


def reload_context(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Take the files of a daemon's context once more: connections that come from now on see them (Y3)."""
    server_context(files)
    _load_own(context, files)
    if files.ca is not None:
        _load_ca(context, files.ca)


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    certificate, key = files.certificate, files.key or files.certificate
    _check_pem(certificate, "the certificate", b"CERTIFICATE")
    content = _check_pem(key, "the key", b"PRIVATE KEY")
    _check_key(key)
    if b"ENCRYPTED" in content:
        raise Invalid(f"the key {key} has a passphrase, which a daemon cannot type: store it without one, 0600")
    try:
        context.load_cert_chain(certificate, key, password=b"")
    except ssl.SSLError as e:
        if e.reason == "KEY_VALUES_MISMATCH":
            raise Invalid(
                f"the key {key} is not that of the certificate {certificate}: give the two of one pair"
            ) from e
        raise Invalid(f"the certificate {certificate} and the key {key} cannot be used: {e.reason or e}") from e


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    _check_pem(ca, "the authorities' file", b"CERTIFICATE")
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as e:
        raise Invalid(f"the authorities' file {ca} cannot be used: {e.reason or e}") from e


def _check_pem(path: Path, what: str, kind: bytes) -> bytes:
    """The bytes of a file in PEM that has at least one of a kind."""
    try:
        with open(path, "rb") as file:
            content = file.read(_BYTES_MAX)
    except OSError as e:
        raise Invalid(f"{what} {path} cannot be read: {e.strerror or e}") from e
    if _PEM not in content or kind + b"-----" not in content:
        raise Invalid(f"{what} {path} is no PEM file with a {kind.decode()}: it must have a line -----BEGIN …-----")
    return content


def _check_key(path: Path) -> None:
    """Ours alone; or root's, and readable by a group that we are in (Y2)."""
    found = os.stat(path)
    if found.st_uid == 0 and stat.S_ISREG(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o037:
        return
    check_private(path, "the key", found, (os.geteuid(), 0))
