"""The systemd unit in contrib/: its parts fit the program, and systemd understands it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from journal.cli import parser
from journal.core.times import duration_ms
from journal.net.wire.limits import DEFAULT

UNIT = Path(__file__).resolve().parents[4] / "contrib" / "journal@.service"


def parse(text: str) -> dict[str, dict[str, list[str]]]:
    """Sections, their keys, and each key's values in order."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] | None = None
    for line in text.splitlines():
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("["):
            assert line.endswith("]") and line[1:-1] not in sections, line
            section = sections[line[1:-1]] = {}
            continue
        key, equals, value = line.partition("=")
        assert section is not None and equals and key.isalnum() and value == value.strip(), line
        section.setdefault(key, []).append(value)
    return sections


@pytest.fixture
def unit() -> dict[str, dict[str, list[str]]]:
    """The unit."""
    return parse(UNIT.read_text())


def ms(value: str) -> int:
    return duration_ms(value.replace("min", "m"), "time")


def test_its_command_is_one_of_ours(unit: dict[str, dict[str, list[str]]]) -> None:
    """`journal serve` takes what the unit gives it, with the options of the comment too."""
    (command,) = unit["Service"]["ExecStart"]
    program, *words = command.replace("%i", "work").split()
    assert program == "/usr/bin/journal" and words[-1] == "$OPTIONS"
    comment = next(line for line in UNIT.read_text().splitlines() if line.startswith("#   OPTIONS="))
    options = comment.removeprefix("#   OPTIONS=").split()
    args = parser().parse_args([*words[:-1], *options])
    assert (args.command, args.store) == ("serve", "/var/lib/journal/work")
    assert args.tcp == ["127.0.0.1:7070"]


def test_it_waits_longer_than_the_daemon(unit: dict[str, dict[str, list[str]]]) -> None:
    """Who is told to stop has the time for it, and time to close the store."""
    service = {key: values[-1] for key, values in unit["Service"].items()}
    assert ms(service["TimeoutStopSec"]) >= DEFAULT.stop_ms + 20_000
    assert ms(service["TimeoutStartSec"]) >= 300_000
    assert ms(service["WatchdogSec"]) >= 10_000


def test_it_is_told_and_started_again(unit: dict[str, dict[str, list[str]]]) -> None:
    """Readiness and reloads by notification; a failure is not the end, wrong arguments are."""
    service = unit["Service"]
    assert service["Type"] == ["notify", "notify-reload"]
    assert service["Restart"] == ["on-failure"] and service["RestartPreventExitStatus"] == ["2"]
    assert unit["Install"]["WantedBy"] == ["multi-user.target"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ProtectSystem", "strict"),
        ("ReadWritePaths", "/var/lib/journal"),
        ("NoNewPrivileges", "yes"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("MemoryDenyWriteExecute", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("IPAddressDeny", "any"),
        ("IPAddressAllow", "localhost"),
        ("LimitNOFILE", "65536"),
        ("User", "journal"),
    ],
)
def test_it_is_hardened(unit: dict[str, dict[str, list[str]]], key: str, value: str) -> None:
    """Nothing but the store can be written, nobody else be reached."""
    assert unit["Service"][key] == [value]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_it(tmp_path: Path) -> None:
    """Every line; but for the kind that versions before 253 do not know, which the unit allows for."""
    text = UNIT.read_text()
    if int(subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True).stdout.split()[1]) < 253:
        text = text.replace("Type=notify-reload\n", "")
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("/usr/bin/journal ", f"{shutil.which('true')} "))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=300, check=False
    )
    about_us = [line for line in ran.stderr.splitlines() if "journal@" in line]  # it may complain about others, too
    assert (ran.returncode, about_us) == (0, [])
