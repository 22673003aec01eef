"""`journal serve`: what it refuses, how it tells that it is ready, signals, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import journal
from journal.net.client.connection.options import Backoff
from journal.net.server.runtime.token_file import add_token, remove_token
from journal.net.tls import client_context
from tests.cli.conftest import Run
from tests.net.server.serving import serving

CERTIFICATES = Path(__file__).parent.parent / "net" / "server" / "certificates"
AT_ONCE = Backoff(total=0)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Certificates and keys, as they should lie there."""
    for source in CERTIFICATES.glob("*.*"):
        copied = Path(shutil.copy(source, tmp_path))
        copied.chmod(0o600 if copied.suffix == ".key" else 0o644)
    return tmp_path


def token(file: Path, identity: str, *roles: str) -> str:
    """A token of a new identity."""
    return f"{identity}:{add_token(file, identity, roles, ['*'], ['*']).secret.hex()}"


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--tcp 0.0.0.0:0", "0.0.0.0:0 is not loopback"),
        ("--tcp 0.0.0.0:0 --trust-loopback", "0.0.0.0:0 is not loopback"),
        ("--tcp [::]:0 --tokens {f}/tokens", "--tls-cert"),
        ("--tcp 0.0.0.0:0 --tls-cert {f}/daemon.pem --tls-key {f}/daemon.key", "--tokens"),
        ("--tcp 0.0.0.0:0 --tls-cert {f}/daemon.pem --tls-key {f}/daemon.key --tokens {f}/nobody", "--tokens"),
        ("--tcp 127.0.0.1:0", "--tokens FILE, or say --trust-loopback"),
        ("--tcp 127.0.0.1:0 --tokens {f}/tokens --trust-loopback", "without tokens"),
        ("--trust-loopback", "without tokens"),
        ("--tcp 7070", "HOST:PORT"),
        ("--no-unix", "listen nowhere"),
        ("--unix {long}", "107"),
        ("--tokens {f}/missing", "missing cannot be read"),
        ("--tokens {f}/daemon.pem", "0644"),
        ("--tls-key {f}/daemon.key", "without --tls-cert"),
        ("--tls-client-ca {f}/ca.pem", "without --tls-cert"),
        ("--tls-cert {f}/daemon.pem", "without --tcp"),
        ("--tcp 127.0.0.1:0 --tokens {f}/tokens --tls-cert {f}/daemon.pem", "PRIVATE KEY"),
        ("--tcp 127.0.0.1:0 --tokens {f}/tokens --tls-cert {f}/daemon.pem --tls-key {f}/client.key", "not that of"),
        ("--in-flight-max 257", "from 1 to 256"),
        ("--in-flight-max 0", "in_flight_max"),
        ("--connections-max 0", "--connections-max"),
        ("--frame-bytes-max 10", "frame_bytes_max"),
        ("--idle-timeout soon", "--idle-timeout"),
        ("--durability some", "--durability"),
        ("--log-format xml", "--log-format"),
        ("--unix x --no-unix", "not allowed with"),
        ("--name two words", "unrecognized"),
    ],
)
def test_what_is_refused(run: Run, files: Path, options: str, said: str) -> None:
    """With exit code 2 and the reason, before a store is made."""
    token(files / "tokens", "backend", "admin")
    (files / "nobody").write_text("# nobody\n")
    (files / "nobody").chmod(0o600)
    words = options.format(f=files, long=files / ("x" * 108)).split()
    ran = run("serve", files / "s", *words)
    assert (ran.code, ran.out) == (2, "") and said in ran.err
    assert not (files / "s").exists()


def test_a_store_whose_path_is_too_long(run: Run, tmp_path: Path) -> None:
    """Its socket needs another place: the error says how."""
    ran = run("serve", tmp_path / ("x" * 100))
    assert ran.code == 2 and "--unix PATH" in ran.err
    with serving(tmp_path / ("x" * 100), "--unix", tmp_path / "short") as daemon:
        assert daemon.addresses == [f"unix:{tmp_path / 'short'}"]
        assert "ABSOLUTELY" in daemon.line("ALIVE")


def test_a_store_that_is_owned(run: Run, path: Path) -> None:
    """One daemon for a store."""
    with serving(path) as daemon:
        ran = run("serve", path)
        assert ran.code == 1 and str(daemon.process.pid) in ran.err
        assert "ABSOLUTELY" in daemon.line("ALIVE")


def test_a_port_that_is_taken(run: Run, path: Path) -> None:
    """Refused; nothing is left behind."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = run("serve", path, "--tcp", f"127.0.0.1:{taken.getsockname()[1]}", "--trust-loopback")
    assert ran.code == 1 and "cannot listen" in ran.err and "Address already in use" in ran.err
    assert not (path / "SOCKET").exists()
    assert run("check", path).code == 0


def test_a_failure_as_a_line_of_the_log(run: Run, path: Path) -> None:
    """A reader of objects on standard error gets an object."""
    ran = run("serve", path, "--tcp", "0.0.0.0:0", "--log-format", "json")
    line = json.loads(ran.err)
    assert ran.code == 2 and line["event"] == "failed" and "not loopback" in line["error"]


# --- ready ------------------------------------------------------------------------------------------------------------


def test_it_serves_its_store(path: Path) -> None:
    """On the socket in the store, 0600, for its owner; it goes when the daemon does."""
    with serving(path) as daemon:
        assert daemon.addresses == [f"unix:{path / 'SOCKET'}"]
        assert stat.S_IMODE((path / "SOCKET").stat().st_mode) == 0o600
        with journal.connect(path) as store:
            pages = store.journal("pages")
            assert pages.put("c", 3).outcome == "inserted"
            lease = pages.claim(consumer="me")
            assert lease is not None and lease.key == "a"
            lease.done()
        assert daemon.stop() == 0
        assert f"serving store={path} at=unix:{path}/SOCKET" in daemon.log and "stopped" in daemon.log
    assert not (path / "SOCKET").exists()
    with journal.open(path) as opened:
        assert opened.journal("pages").get("c") is not None and opened.check() == []


@pytest.mark.parametrize("is_json", [False, True])
def test_addresses_on_standard_output(path: Path, is_json: bool) -> None:
    """One a line, or an object; with the port that was free."""
    options = ["--tcp", "127.0.0.1:0", "--trust-loopback", "--print-addresses", *(["--json"] if is_json else [])]
    with serving(path, *options) as daemon:
        assert daemon.process.stdout is not None
        if is_json:
            found = json.loads(daemon.process.stdout.readline())
            assert found == {"addresses": daemon.addresses, "pid": daemon.process.pid}
        else:
            assert [daemon.process.stdout.readline().strip() for _ in range(2)] == daemon.addresses
        port = int(daemon.address("tcp://127.0.0.1:").rpartition(":")[2])
        assert port > 0
        with journal.connect(daemon.address("tcp:")) as store:
            assert store.journal("pages").get("a") is not None


def test_a_pid_file(tmp_path: Path) -> None:
    """There when it is ready, gone when it has ended."""
    with serving(tmp_path / "s", "--pid-file", tmp_path / "pid") as daemon:
        assert (tmp_path / "pid").read_text() == f"{daemon.process.pid}\n"
        assert daemon.stop() == 0
    assert not (tmp_path / "pid").exists()


@pytest.mark.parametrize(
    "options", [("--pid-file", "/nowhere/pid"), ("--ready-fd", "999")], ids=["pid file", "descriptor"]
)
def test_who_cannot_be_told_has_no_daemon(tmp_path: Path, options: tuple[str, str]) -> None:
    """It ends, and leaves nothing behind."""
    ran = subprocess.run(
        [sys.executable, "-m", "journal", "serve", tmp_path / "s", *options],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode in (1, 2) and "cannot be written" in ran.stderr and "Traceback" not in ran.stderr
    assert not (tmp_path / "s" / "SOCKET").exists()
    with journal.open(tmp_path / "s") as opened:
        assert opened.check() == []


def test_a_service_manager_hears_of_it(tmp_path: Path) -> None:
    """Ready, a sign of life over the socket, reloading, ready again, stopping."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        with serving(tmp_path / "s", environment=told) as daemon:
            first = manager.recv(4096).decode()
            assert first.startswith("READY=1\nSTATUS=serves ") and "SOCKET" in first
            assert manager.recv(4096) == b"WATCHDOG=1"
            daemon.process.send_signal(signal.SIGHUP)
            heard = b""
            while b"STOPPING" not in heard:
                heard = manager.recv(4096)
                if heard.startswith(b"RELOADING=1\nMONOTONIC_USEC="):
                    daemon.process.send_signal(signal.SIGTERM)
            assert daemon.wait() == 0


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_in_good_order(path: Path, signum: signal.Signals) -> None:
    """With exit code 0; what was put is there."""
    with serving(path) as daemon:
        with journal.connect(path) as store:
            store.journal("pages").put("c")
        assert daemon.stop(signum) == 0
    with journal.open(path) as opened:
        assert opened.journal("pages").get("c") is not None


def test_a_client_may_stop_it(path: Path) -> None:
    """STOP, by hand on the socket."""
    with serving(path) as daemon:
        assert "QUITTING" in daemon.line("STOP")
        assert daemon.wait() == 0


def test_what_a_killed_daemon_left_is_replaced(path: Path) -> None:
    """Its socket lies there, and the next one serves."""
    with serving(path) as daemon:
        with journal.connect(path) as store:
            store.journal("pages").put("c")
        daemon.kill()
        assert stat.S_ISSOCK((path / "SOCKET").lstat().st_mode)
    with serving(path) as daemon, journal.connect(path) as store:
        assert store.journal("pages").get("c") is not None


def test_tokens_are_read_again(path: Path, tmp_path: Path) -> None:
    """A new identity comes in; one that is gone is put out; a broken file changes nothing."""
    file = tmp_path / "tokens"
    old = token(file, "old", "admin")
    with serving(path, "--tcp", "127.0.0.1:0", "--tokens", file) as daemon:
        address = daemon.address("tcp:")
        with journal.connect(address, token=old, backoff=AT_ONCE) as gone:
            assert gone.journal("pages").get("a") is not None
            new = token(file, "new", "admin")
            remove_token(file, "old")
            reload(daemon.process.pid, daemon._log)
            with journal.connect(address, token=new) as store:
                assert store.journal("pages").get("a") is not None
            with pytest.raises(journal.JournalError):
                journal.connect(address, token=old, backoff=AT_ONCE)
            with pytest.raises(journal.JournalError):
                gone.journal("pages")
        file.write_text("half a line")
        reload(daemon.process.pid, daemon._log)
        assert "reload_failed" in daemon.log and "line 1" in daemon.log
        with journal.connect(address, token=new) as store:
            assert store.journal("pages").get("a") is not None


def test_tokens_beside_trusted_loopback_are_refused(path: Path) -> None:
    """They would keep no client out: a reload says so and changes nothing; without them it says which clients are let in."""
    options = "--tcp", "127.0.0.1:0", "--trust-loopback"
    with serving(path, *options) as daemon:
        reload(daemon.process.pid, daemon._log)
        assert 'reloaded found="every user of this machine is let in (--trust-loopback)"' in daemon.log
        token(path / "_tokens", "backend", "consume")
        reload(daemon.process.pid, daemon._log)
        assert (
            "reload_failed" in daemon.log and "start the daemon without it, or take the identities away" in daemon.log
        )
        with journal.connect(daemon.address("tcp:")) as store:
            assert store.journal("pages").get("a") is not None


def reload(pid: int, log: Path) -> None:
    """Have a daemon read its files again, and wait until it has."""
    with open(log) as lines:
        lines.seek(0, os.SEEK_END)
        os.kill(pid, signal.SIGHUP)
        while "reload" not in (line := lines.readline()) or "tokens_reloaded" in line:
            pass


def test_tokens_of_the_store(path: Path) -> None:
    """Found without being named."""
    secret = token(path / "_tokens", "backend", "admin")
    with serving(path, "--tcp", "127.0.0.1:0", "--no-unix") as daemon:
        with journal.connect(daemon.address("tcp:"), token=secret) as store:
            assert store.journal("pages").get("a") is not None
        with pytest.raises(journal.AccessDenied):
            journal.connect(daemon.address("tcp:"), token="backend:" + "00" * 32, backoff=AT_ONCE)


def test_tls(path: Path, files: Path) -> None:
    """On every interface; a client without TLS, or without the authority, gets nowhere."""
    token(files / "tokens", "backend", "admin")
    with serving(
        path, "--tcp", "0.0.0.0:0", "--tokens", files / "tokens", "--tls-cert", files / "daemon.pem", "--tls-key",
        files / "daemon.key",
    ) as daemon:  # fmt: skip
        port = int(daemon.address("tls://0.0.0.0:").rpartition(":")[2])

        def asked(context: ssl.SSLContext | None) -> bytes:
            with socket.create_connection(("127.0.0.1", port), 30) as plain:
                if context is None:
                    plain.sendall(b"ALIVE serial=1\n")
                    return plain.recv(100)
                with context.wrap_socket(plain, server_hostname="localhost") as wrapped:
                    wrapped.sendall(b"ALIVE serial=1\n")
                    return wrapped.recv(100)

        assert b"ABSOLUTELY serial=1" in asked(client_context(ca=files / "ca.pem"))
        with contextlib.suppress(ConnectionResetError):
            assert b"ABSOLUTELY" not in asked(None)
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(client_context(ca=files / "other-ca.pem"))
        for name in ("daemon.pem", "daemon.key"):
            (files / name).write_bytes((files / name.replace("daemon", "client")).read_bytes())
        reload(daemon.process.pid, daemon._log)
        with pytest.raises(ssl.SSLCertVerificationError):
            asked(client_context(ca=files / "ca.pem"))
        assert 'found="1 identities, certificates"' in daemon.log


def test_logs_as_objects(path: Path) -> None:
    """Each line is one."""
    with serving(path, "--log-format", "json", "--log-level", "debug") as daemon:
        with journal.connect(path) as store:
            store.journal("pages").put("c")
        assert daemon.stop() == 0
        events = [json.loads(line)["event"] for line in daemon.log.splitlines()]
    assert {"serving", "stop_signal", "stopped"} <= set(events)


@pytest.mark.parametrize("durability", ["full", "interval", "none"])
def test_durability(path: Path, durability: str) -> None:
    """All levels are served, and a good end loses nothing."""
    with (
        serving(path, "--durability", durability, "--sync-interval", "10ms", "--claims", "full"),
        journal.connect(path) as store,
    ):
        store.journal("pages").put("c")
    with journal.open(path) as opened:
        assert opened.journal("pages").get("c") is not None


def test_connections_are_limited(path: Path) -> None:
    """A client that comes when it is full is refused, and those that are there go on."""
    with serving(path, "--connections-max", "1"), journal.connect(path) as store:
        with pytest.raises(journal.JournalError):
            journal.connect(path, timeout="5s", backoff=AT_ONCE)
        assert store.journal("pages").get("a") is not None


def test_it_has_help(run: Run) -> None:
    """Every limit is there, with its default."""
    ran = run("serve", "--help")
    assert ran.code == 0
    for word in ("--frame-bytes-max", "--in-flight-max", "--idle-timeout", "default 90s", "default 1048576", "SIGHUP"):
        assert word in ran.out
