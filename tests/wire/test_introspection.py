"""COMMAND and HELP replies against Redis 8.2.3, for the commands we have, in RESP2 and RESP3."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.resp import Connection, ServerError, as_map
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire


@pytest.fixture(params=[2, 3])
def both(request: pytest.FixtureRequest, pion_shared: PionServer, redis82: Redis82) -> tuple[Connection, Connection]:
    """A connection to ours and one to the reference, in the same protocol."""
    ours = Connection(pion_shared.port, protocol=request.param)
    reference = Connection(redis82.port, protocol=request.param)
    yield ours, reference
    ours.close()
    reference.close()


def reply(connection: Connection, *words: str | bytes) -> Any:
    """The reply; an error as its text."""
    try:
        return connection.call(*words)
    except ServerError as error:
        return str(error)


def names(connection: Connection) -> set[str]:
    return {name.decode() for name in connection.call("COMMAND", "LIST")}


def shared_commands(both: tuple[Connection, Connection]) -> list[str]:
    """Commands without subcommands' names, ours and Redis' at once."""
    ours, reference = both
    common = names(ours) & names(reference)
    assert len(common) > 60
    return sorted(name for name in common if "|" not in name)


def without_missing_subcommands(info: list[Any], have: set[str]) -> list[Any]:
    """Subcommands in order of name, those we have."""
    subs = [without_missing_subcommands(sub, have) for sub in info[9] if sub[0].decode() in have]
    return [*info[:9], sorted(subs, key=lambda sub: sub[0])]


def test_command_info_equals_the_reference(both: tuple[Connection, Connection]) -> None:
    ours, reference = both
    have = names(ours)
    for name in shared_commands(both):
        mine, theirs = ours.call("COMMAND", "INFO", name)[0], reference.call("COMMAND", "INFO", name)[0]
        assert without_missing_subcommands(mine, have) == without_missing_subcommands(theirs, have), name


def test_info_of_subcommands_equals_the_reference(both: tuple[Connection, Connection]) -> None:
    ours, reference = both
    subs = sorted(name for name in names(ours) & names(reference) if "|" in name)
    assert subs
    assert ours.call("COMMAND", "INFO", *subs) == reference.call("COMMAND", "INFO", *subs)


def docs_map(reply: Any, have: set[str]) -> dict[str, Any]:
    """COMMAND DOCS as nested dictionaries, without the subcommands we lack."""

    def arguments(entries: list[Any]) -> list[dict[bytes, Any]]:
        return [{k: arguments(v) if k == b"arguments" else v for k, v in as_map(entry).items()} for entry in entries]

    docs = {}
    for name, fields in as_map(reply).items():
        fields = dict(as_map(fields))
        if b"arguments" in fields:
            fields[b"arguments"] = arguments(fields[b"arguments"])
        if b"subcommands" in fields:
            fields[b"subcommands"] = docs_map(fields[b"subcommands"], have)
        if name.decode() in have:
            docs[name.decode()] = fields
    return docs


def test_command_docs_equal_the_reference(both: tuple[Connection, Connection]) -> None:
    ours, reference = both
    have = names(ours)
    for name in shared_commands(both):
        mine, theirs = docs_map(ours.call("COMMAND", "DOCS", name), have), docs_map(reference.call("COMMAND", "DOCS", name), have)
        assert mine == theirs, name


def test_fields_of_docs_come_in_the_same_order(both: tuple[Connection, Connection]) -> None:
    ours, reference = both
    for name in shared_commands(both):
        if all(sub[0].decode() in names(ours) for sub in reference.call("COMMAND", "INFO", name)[0][9]):
            mine, theirs = ours.call("COMMAND", "DOCS", name), reference.call("COMMAND", "DOCS", name)
            if b"subcommands" not in as_map(as_map(mine)[name.encode()]):  # their order is that of a hash table
                assert repr(mine) == repr(theirs), name


def test_count_and_list_agree(both: tuple[Connection, Connection]) -> None:
    ours, _ = both
    top = [name for name in names(ours) if "|" not in name]
    assert ours.call("COMMAND", "COUNT") == len(top) == len(ours.call("COMMAND"))


@pytest.mark.parametrize(
    "words",
    [
        "GETKEYS SET a b", "GETKEYS MSET a 1 b 2", "GETKEYS MGET a b c", "GETKEYS RENAME a b", "GETKEYS COPY a b", "GETKEYS LCS a b",
        "GETKEYS OBJECT ENCODING a", "GETKEYS DEL a b c", "GETKEYS GETEX a EX 5", "GETKEYS PING", "GETKEYS nosuch a", "GETKEYS SET",
        "GETKEYS GET a b", "GETKEYS", "GETKEYS CLIENT ID", "GETKEYS SCAN 0",
        "GETKEYSANDFLAGS SET a b", "GETKEYSANDFLAGS SET a b GET", "GETKEYSANDFLAGS SET a b EX 5 GET", "GETKEYSANDFLAGS MSET a 1 b 2",
        "GETKEYSANDFLAGS RENAME a b", "GETKEYSANDFLAGS COPY a b", "GETKEYSANDFLAGS GETDEL a", "GETKEYSANDFLAGS PING",
        "GETKEYSANDFLAGS EXPIRE a 5", "INFO nosuch", "INFO nosuch ping", "DOCS nosuch", "nosuch", "COUNT x", "HELP",
        "LIST FILTERBY", "LIST FILTERBY MODULE x", "LIST x", "LIST FILTERBY x y", "LIST FILTERBY ACLCAT nosuch", "INFO client|nosuch",
    ],
)
def test_command_subcommands_equal_the_reference(both: tuple[Connection, Connection], words: str) -> None:
    ours, reference = both
    assert reply(ours, "COMMAND", *words.split()) == reply(reference, "COMMAND", *words.split())


@pytest.mark.parametrize("filter", ["PATTERN set*", "PATTERN *|i*", "PATTERN GET?X", "ACLCAT string", "ACLCAT Fast", "ACLCAT dangerous"])
def test_list_filters_equal_the_reference(both: tuple[Connection, Connection], filter: str) -> None:
    ours, reference = both
    common = names(ours) & names(reference)
    mine = {name.decode() for name in ours.call("COMMAND", "LIST", "FILTERBY", *filter.split())}
    theirs = {name.decode() for name in reference.call("COMMAND", "LIST", "FILTERBY", *filter.split())}
    assert mine & common == theirs & common
    assert mine


def help_entries(lines: list[str]) -> dict[str, list[str]]:
    """HELP by subcommand: its syntax line and the indented lines under it."""
    entries: dict[str, list[str]] = {}
    current = ""
    for line in lines[1:]:
        if not line.startswith(" "):
            current = line
        entries.setdefault(current, []).append(line)
    return entries


@pytest.mark.parametrize("container", ["CLIENT", "CONFIG", "OBJECT", "COMMAND"])
def test_help_equals_the_reference(both: tuple[Connection, Connection], container: str) -> None:
    ours, reference = both
    mine, theirs = ours.call(container, "HELP"), reference.call(container, "HELP")
    assert mine[0] == theirs[0]
    have = {name.split("|")[1].upper() for name in names(ours) if name.startswith(container.lower() + "|")}
    named = {k: v for k, v in help_entries(theirs).items() if re.match(r"[A-Z-]+", k) is None or k.split()[0] in have}
    assert help_entries(mine) == named


def test_unknown_commands_and_wrong_counts(both: tuple[Connection, Connection]) -> None:
    ours, reference = both
    long = b"x" * 300
    for words in [
        ("nosuch",), ("nosuch", "a", "b"), (long, long), ("nosuch", "a\r\nb"), ("no\nsuch",), ("nosuch", b"a\x00b"), ("", ""),
        ("CLIENT",), ("CLIENT", "nosuch"), ("CLIENT", "ID", "x"), ("CONFIG", "nosuch", "x"), ("CONFIG",), ("COMMAND", "nosuch"),
        ("ECHO",), ("PING", "a", "b"), ("GET",), ("client", long),
    ]:
        assert reply(ours, *words) == reply(reference, *words), words
