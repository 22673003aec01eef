"""Proofs and rights."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Role
from journal.errors import AccessDenied, Invalid
from journal.net.wire.auth import CLIENT, DAEMON, EVERYTHING, NOTHING, Grant, check_nonce, is_proof, proof
from journal.net.wire.tokens import Token, format_tokens, parse_tokens

BACKEND = Grant("backend", frozenset({Role.PRODUCE, Role.CONSUME}), ("pages", "mail-*"), ("backend-*",))
SECRETS = st.binary(min_size=16, max_size=16)
PARTS = st.tuples(st.sampled_from([CLIENT, DAEMON]), st.text(), st.binary(), st.binary(), st.binary())


@given(SECRETS, PARTS, SECRETS, PARTS)
def test_a_proof_is_for_one_handshake(secret: bytes, parts: Any, other: bytes, others: Any) -> None:
    """Another secret, side, identity, session or nonce makes another proof."""
    given_proof = proof(secret, *parts)
    assert is_proof(given_proof, secret, *parts)
    assert is_proof(given_proof, other, *others) is ((secret, parts) == (other, others))
    assert not is_proof(given_proof[:-1], secret, *parts)
    assert not is_proof(b"", secret, *parts)


def test_an_identity_that_does_not_exist_proves_nothing() -> None:
    """Not even with the secret that stands in for it."""
    parts = (CLIENT, "nobody", b"s", b"c", b"d")
    assert not is_proof(proof(bytes(16), *parts), None, *parts)


def request(name: str, journal: str = "pages", **parameters: Any) -> tuple[Any, str, dict[str, Any]]:
    return COMMANDS[name], journal, parameters


@pytest.mark.parametrize(
    "asked",
    [
        request("PUT", key="a", data=b"\xc0"),
        request("PUT", "mail-7", key="a", owner="backend"),
        request("CLAIM", consumer="backend-1"),
        request("PUT_MANY", puts=[{"owner": "backend-2"}, {}]),
        request("MOVE_MANY", moves=[{"owner": "backend-2"}, {}]),
        request("LISTEN", "", journals=["*", "pages"], port=1),
        request("REGISTER", "", service="backend-1"),
        request("JOURNALS", ""),
        request("PING", ""),
    ],
    ids=lambda asked: f"{asked[0].name}-{asked[1]}",
)
def test_what_is_granted(asked: tuple[Any, str, dict[str, Any]]) -> None:
    """Its roles, its journals, its names."""
    BACKEND.check(*asked)
    EVERYTHING.check(*asked)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request("PUT", "mails"), "no right to the journal 'mails'"),
        (request("PUT", owner="billing"), "under the name 'billing'"),
        (request("CLAIM", consumer="front-1"), "under the name 'front-1'"),
        (request("PUT_MANY", puts=[{"owner": "backend"}, {"owner": "x\n"}]), r"under the name 'x\\n'"),
        (request("MOVE_MANY", moves=[{}, {"owner": "billing"}]), "under the name 'billing'"),
        (request("DELETE_MANY", deletes=[{"owner": "billing"}]), "under the name 'billing'"),
        (request("ENTRIES_OF", owner="billing"), "under the name 'billing'"),
        (request("OWNERS"), "needs the role admin"),
        (request("LISTEN", "", journals=["pages", "mails"]), "journal 'mails'"),
        (request("CLAIM", consumer=""), "under the name ''"),
        (request("REGISTER", "", service="front"), "under the name 'front'"),
        (request("DROP"), "needs the role admin and has consume, produce"),
        (request("STOP", ""), "needs the role admin"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].name,
)
def test_what_is_denied(asked: tuple[Any, str, dict[str, Any]], reason: str) -> None:
    """Another's journal, name or role."""
    with pytest.raises(AccessDenied, match=reason):
        BACKEND.check(*asked)


def test_nobody_and_the_admin() -> None:
    """Who has nothing may ask whether the daemon is alive; an admin may do all that its journals allow."""
    NOTHING.check(*request("ALIVE", ""))
    with pytest.raises(AccessDenied):
        NOTHING.check(*request("JOURNALS", ""))
    admin = Grant("root", frozenset({Role.ADMIN}), ("pages",))
    admin.check(*request("FEED_REMOVE", consumer="somebody"))
    admin.check(*request("PUT"))
    with pytest.raises(AccessDenied):
        admin.check(*request("DROP", "mails"))
    with pytest.raises(AccessDenied):
        admin.check(*request("CLAIM", consumer="somebody"))


def test_nonces_have_their_size() -> None:
    """A short nonce is no nonce."""
    assert check_nonce(bytes(32)) == bytes(32)
    for wrong in (b"", bytes(31), "x" * 32, None):
        with pytest.raises(Invalid):
            check_nonce(wrong)


PATTERNS = st.lists(st.from_regex(r"\A[A-Za-z0-9_.*?-]{2,9}\Z"), max_size=3).map(tuple)
GRANTS = st.builds(Grant, st.just(""), st.frozensets(st.sampled_from(Role)), PATTERNS, PATTERNS)


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,9}\Z"), st.tuples(st.binary(min_size=16, max_size=64), GRANTS)
    )
)
def test_a_token_file_comes_back(drawn: dict[str, tuple[bytes, Grant]]) -> None:
    """What is written is read again."""
    tokens = {
        name: Token(secret, Grant(name, grant.roles, grant.journals, grant.names))
        for name, (secret, grant) in drawn.items()
    }
    assert parse_tokens(format_tokens(tokens)) == tokens


@given(st.text("#ab-,*\n \t0123456789abcdef", max_size=120))
def test_any_text_is_a_token_file_or_invalid(text: str) -> None:
    """Nothing else happens."""
    try:
        parse_tokens(text)
    except Invalid:
        pass


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a 00112233445566778899aabbccddeeff produce *", "line 2: 4 fields"),
        ("a/b 00112233445566778899aabbccddeeff produce * -", "no identity"),
        ("a 0011 produce * -", "16 to 64 bytes"),
        ("a 00112233445566778899aabbccddeefg produce * -", "hexadecimal"),
        ("a 00112233445566778899aabbccddeeff root * -", "'root' is no role"),
        ("a 00112233445566778899aabbccddeeff admin ä -", "no pattern"),
        ("ok 00112233445566778899aabbccddeeff admin * -", "comes twice"),
    ],
    ids=lambda value: value[-20:],
)
def test_what_is_no_token(line: str, reason: str) -> None:
    """The line is named, and no secret is shown."""
    first = "ok 00112233445566778899aabbccddeeff produce,consume pages,mail-* -"
    with pytest.raises(Invalid, match=reason) as caught:
        parse_tokens(f"{first}\n{line}\n")
    assert "0011" not in str(caught.value)


def test_tokens_that_cannot_be_written() -> None:
    """A pattern with a space would become two fields."""
    with pytest.raises(Invalid):
        format_tokens({"a": Token(bytes(16), Grant("a", frozenset(), ("x y",)))})
