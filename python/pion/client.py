"""Client of a Pion server: every PROMPT.* command, typed, over the fastest lane there is.

Lanes, chosen by the client itself:

* ``tcp``   any host;
* ``unix``  the server is on this host and its socket (named in ``INFO server``) is ours to open;
* ``shm``   the same socket; rows are read from the server's own files through passed descriptors
  (and written through the socket: the server stores while it receives).

Every call has a deadline. After a failure a circuit breaker answers for the server, so that nobody
waits; one probe at a time finds out when it is back. A client is thread safe (one call at a time)
and survives fork (the child connects anew).
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .breaker import Breaker
from .errors import DataError, PionError, ProtocolError, ReplyError, Unavailable
from .pools import Want, as_tokens
from .resp import Argument, Bulk, Connection, Deadline, as_map, raise_error, text
from .replies import Fetch, Match, Media, Put
from .shared import PayloadFiles, Run, is_own_socket

DEFAULT_PORT = 1974
LARGEST_BULK = 512 << 20  # proto-max-bulk-len
_LOWEST_RATE = 50e6  # bytes per second a peer must reach at least; beyond that a call is late


class Client:
    """Connection to one server, made when first needed.

    ``lane`` is "auto", "tcp", "unix" or "shm". ``timeout_s`` bounds a call (plus the time its bytes
    take at 50 MB/s), ``connect_timeout_s`` the making of a connection with its greeting. Clients that
    share a ``breaker`` share what they know about the server being down.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        unix_socket: str | None = None,
        lane: str = "auto",
        username: str | None = None,
        password: str | None = None,
        connect_timeout_s: float = 0.5,
        timeout_s: float = 2.0,
        breaker: Breaker | None = None,
        name: str = "pion-python",
    ) -> None:
        if lane not in ("auto", "tcp", "unix", "shm"):
            raise ValueError(f"lane {lane!r} is none of auto, tcp, unix, shm")
        self.host, self.port = host, port
        self.unix_socket = None if lane == "tcp" else unix_socket
        self.connect_timeout_s, self.timeout_s = connect_timeout_s, timeout_s
        self.breaker = breaker if breaker is not None else Breaker()
        self._wanted_lane = lane
        self._auth = (username or "default", password) if password is not None else None
        self._name = name
        self._lock = threading.RLock()
        self._conn: Connection | None = None
        self._files: PayloadFiles | None = None
        self._pid = os.getpid()
        self.lane = ""

    # -- connecting --------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        with self._lock:
            self._drop()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def twin(self, name: str) -> "Client":
        """Another client of the same server, with a connection of its own and the same breaker."""
        user, password = self._auth if self._auth else (None, None)
        return Client(
            self.host,
            self.port,
            unix_socket=self.unix_socket,
            lane=self._wanted_lane,
            username=user,
            password=password,
            connect_timeout_s=self.connect_timeout_s,
            timeout_s=self.timeout_s,
            breaker=self.breaker,
            name=name,
        )

    def _drop(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _greet(self, sock: socket.socket, deadline: Deadline) -> Connection:
        conn = Connection(sock)
        hello: list[Argument] = [b"HELLO", b"3"]
        if self._auth is not None:
            hello += [b"AUTH", self._auth[0], self._auth[1] or ""]
        hello += [b"SETNAME", self._name]
        try:
            conn.send([hello], deadline)
            answer = conn.reply(deadline)
            if isinstance(answer, ReplyError):
                if answer.code not in ("NOPROTO", "ERR"):
                    raise answer
                # An old peer: RESP2, told who we are the old way.
                if self._auth is not None:
                    conn.send([[b"AUTH", self._auth[0], self._auth[1] or ""]], deadline)
                    raise_error(conn.reply(deadline))
        except BaseException:
            conn.close()
            raise
        return conn

    def _open_unix(self, path: str, deadline: Deadline) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left())
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        return self._greet(sock, deadline)

    def _open_tcp(self, deadline: Deadline) -> Connection:
        sock = socket.create_connection((self.host, self.port), timeout=deadline.left())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._greet(sock, deadline)

    def _connect(self) -> Connection:
        deadline = Deadline(self.connect_timeout_s)
        if self.unix_socket is not None:
            conn = self._open_unix(self.unix_socket, deadline)
        else:
            conn = self._open_tcp(deadline)
            if self._wanted_lane != "tcp":
                conn = self._prefer_unix(conn, deadline)
        self.lane = "tcp"
        if conn.is_unix:
            self.lane = "unix" if self._wanted_lane == "unix" else "shm"
        elif self._wanted_lane in ("unix", "shm"):
            conn.close()
            raise Unavailable(f"no Unix socket of the server at {self.host}:{self.port} can be opened from here")
        self._conn = conn
        self._files = PayloadFiles(self._attach)
        return conn

    def _prefer_unix(self, tcp: Connection, deadline: Deadline) -> Connection:
        """The server's Unix socket instead of ``tcp``, when both are the same server and it is ours to open."""
        local, remote = tcp.ends()
        if local != remote:
            return tcp
        info = _info(tcp, deadline)
        path = info.get("unixsocket", "")
        if not path or not is_own_socket(path):
            return tcp
        try:
            unix = self._open_unix(path, deadline)
        except (OSError, EOFError, ReplyError, ProtocolError):
            return tcp
        if _info(unix, deadline).get("run_id") != info.get("run_id"):
            unix.close()
            return tcp
        tcp.close()
        return unix

    def _probe(self) -> None:
        """Connect and ping on a connection of its own; raises when the server does not answer."""
        deadline = Deadline(self.connect_timeout_s)
        conn = self._open_unix(self.unix_socket, deadline) if self.unix_socket else self._open_tcp(deadline)
        try:
            conn.send([[b"PING"]], deadline)
            raise_error(conn.reply(deadline))
        finally:
            conn.close()

    # -- calling -----------------------------------------------------------------------------

    def _call(
        self,
        commands: Sequence[Sequence[Argument]],
        *,
        timeout_s: float | None = None,
        payload_bytes: int = 0,
        bulks: Sequence[Bulk] = (),
        into: Sequence[Sequence[memoryview]] = (),
        fds: Sequence[int] = (),
        take_fds: bool = False,
        retry: bool = True,
    ) -> list[Any]:
        """Send commands, receive one reply each (errors as objects). ``bulks``: one per command, or none. ``into``: the
        bulks of each command's reply, of agreed lengths; its result is None.

        A connection that turns out to be stale is replaced once, unless ``retry`` is False (what
        hangs on the connection, such as a lease, is gone with it).
        """
        budget = (self.timeout_s if timeout_s is None else timeout_s) + payload_bytes / _LOWEST_RATE
        with self._lock:
            if self._pid != os.getpid():  # a forked child must not speak on its parent's socket
                self._pid = os.getpid()
                self._drop()
            self.breaker.check(self._probe)
            while True:
                fresh = self._conn is None
                try:
                    conn = self._conn or self._connect()
                    deadline = Deadline(budget)
                    conn.send(commands, deadline, fds)
                    if take_fds:
                        conn.expect_fds(deadline)
                    if into:
                        return [conn.reply_into(deadline, targets) for targets in into]
                    return [conn.reply(deadline, bulk) for bulk in (list(bulks) or [None] * len(commands))]
                except ReplyError:  # the greeting was refused (a password): not an outage
                    self._drop()
                    raise
                except (OSError, EOFError, PionError) as error:
                    self._drop()
                    late = isinstance(error, (TimeoutError, BlockingIOError))
                    if not fresh and not late and retry:
                        continue
                    if fresh or late:
                        self.breaker.fail(self._describe(error))
                    if isinstance(error, PionError):
                        raise
                    raise Unavailable(self._describe(error)) from error
                except BaseException:  # a bug or an interrupt in the middle of a reply: the stream is lost
                    self._drop()
                    raise

    def _describe(self, error: BaseException) -> str:
        where = self.unix_socket or f"{self.host}:{self.port}"
        if isinstance(error, (TimeoutError, BlockingIOError)):
            return f"{where} did not answer in time"
        return f"{where}: {error}" if str(error) else f"{where}: {type(error).__name__}"

    def command(self, *arguments: Argument, timeout_s: float | None = None) -> Any:
        """Any command. Returns the reply, raises error replies."""
        return raise_error(self._call([arguments], timeout_s=timeout_s)[0])

    def warm(self) -> None:
        """Connect, and take the descriptors of the payload files there are, so that the first read need not."""
        with self._lock:
            self.ping()
            if self.lane == "shm" and self._files is not None:
                try:
                    self._files.take(self._attach(()))
                except ReplyError:  # a server that passes none; reads will use the socket
                    self.lane = "unix"

    def ping(self) -> None:
        """Raise unless the server answers."""
        self.command(b"PING")

    # -- models ------------------------------------------------------------------------------

    def model_set(self, model: str, manifest: Mapping[str, Any]) -> None:
        """Declare a model. Mismatch when the name is in use with another manifest."""
        self.command(b"PROMPT.MODEL", b"SET", model, json.dumps(manifest, sort_keys=True, separators=(",", ":")))

    def model_get(self, model: str) -> dict[str, Any]:
        """What the server knows of a model: ``json`` (parsed), ``hash``, ``tokens``, ``bytes``."""
        reply = self.command(b"PROMPT.MODEL", b"GET", model)
        if isinstance(reply, list) and len(reply) == 4 and text(reply[0]) != "json":
            reply = dict(zip(("json", "hash", "tokens", "bytes"), reply))
        out = {key: text(value) for key, value in as_map(reply).items()}
        if isinstance(out.get("json"), str):
            out["json"] = json.loads(out["json"])
        return out

    def model_list(self) -> list[str]:
        """Names of all declared models."""
        return [text(name) for name in self.command(b"PROMPT.MODEL", b"LIST")]

    def model_drop(self, model: str) -> None:
        """Forget a model and all that is stored under it; durable before it returns."""
        self.command(b"PROMPT.MODEL", b"DROP", model)

    # -- prompts -----------------------------------------------------------------------------

    def match(
        self,
        model: str,
        tokens: Sequence[int] | np.ndarray,
        *,
        salt: str = "",
        most: int | None = None,
        lease_ms: int | None = None,
        manifest_hash: str | None = None,
        claim_ms: int | None = None,
        wait_ms: int | None = None,
        media: Sequence[Media] = (),
    ) -> Match:
        """Longest stored prefix of ``tokens``, at most ``most`` of them. ``lease_ms`` 0 only asks."""
        args: list[Argument] = [b"PROMPT.MATCH", model, as_tokens(tokens).tobytes()]
        args += _options(salt, media)
        for word, value in ((b"MAX", most), (b"LEASE", lease_ms), (b"CLAIM", claim_ms), (b"WAIT", wait_ms)):
            if value is not None and not (word == b"WAIT" and claim_ms is None):
                args += [word, value]
        if manifest_hash:
            args += [b"MANIFEST", manifest_hash]
        timeout = self.timeout_s + (wait_ms or 0) / 1000.0
        reply = as_map(raise_error(self._call([args], timeout_s=timeout)[0]))
        fork = reply.get("fork")
        return Match(
            matched=int(reply.get("matched") or 0),
            lease=None if reply.get("lease") is None else int(reply["lease"]),
            segments=[(int(s[0]), int(s[1]), int(s[2])) for s in reply.get("segments") or []],
            saved_ms=float(reply.get("saved_ms") or 0),
            restore_ms=float(reply.get("restore_ms") or 0),
            claimed=bool(int(reply.get("claimed") or 0)),
            fork=(int(fork[0]), int(fork[1])) if fork else None,
        )

    def release(self, lease: int) -> bool:
        """End a lease. False when it had run out: then throw away what was read from mapped files."""
        return bool(raise_error(self._call([[b"PROMPT.RELEASE", lease]], retry=False)[0]))

    def read_into(self, lease: int, wants: Sequence[Want], *, release: bool = True) -> Fetch:
        """Fill every target of ``wants`` with verified rows, by the best lane, and end the lease.

        Raises Corrupt, NoLease, DataError or Unavailable; the targets then hold nothing usable. When
        the lease ran out before the end, rows read from mapped files are worthless: DataError.
        """
        for want in wants:
            want.check()
        with self._lock:
            if self.lane == "shm" and self._conn is not None:
                try:
                    fetch = self._fetch_shared(lease, wants)
                except ReplyError as error:
                    if error.code not in ("ERR", "NOPERM"):
                        raise
                    self.lane = "unix"  # this server passes no descriptors
                    fetch = self._fetch_socket(lease, wants)
            else:
                fetch = self._fetch_socket(lease, wants)
            if release:
                fetch.held = self.release(lease)
                if not fetch.held:
                    raise DataError("the lease ran out while rows were read")
        return fetch

    def _fetch_socket(self, lease: int, wants: Sequence[Want]) -> Fetch:
        into = [[target for layer in want.targets for target in layer] for want in wants]
        nbytes = sum(target.nbytes for targets in into for target in targets)
        commands = [_range_command([b"PROMPT.READ", lease], want) for want in wants]
        for reply in self._call(commands, payload_bytes=nbytes, into=into, retry=False):
            raise_error(reply)
        return Fetch(self.lane if self.lane != "shm" else "unix", nbytes)

    def _fetch_shared(self, lease: int, wants: Sequence[Want]) -> Fetch:
        commands = [[*_range_command([b"PROMPT.LOCATE", lease], want), b"UNVERIFIED"] for want in wants]
        replies = self._call(commands, retry=False)
        wanted: list[tuple[memoryview, list[Run]]] = []
        for want, reply in zip(wants, replies):
            runs = raise_error(reply)
            targets = [target for layer in want.targets for target in layer]
            if not isinstance(runs, list) or len(runs) != len(targets):
                raise ProtocolError("LOCATE: not one list of runs per layer and side")
            wanted += [(target, [Run.parse(run) for run in parts]) for target, parts in zip(targets, runs)]
        assert self._files is not None
        return Fetch("shm", self._files.fetch(wanted))

    def _attach(self, ids: Sequence[int]) -> dict[int, int]:
        reply = self._call([[b"PROMPT.ATTACH", *ids]], take_fds=True, retry=False)[0]
        assert self._conn is not None
        fds = self._conn.take_fds()
        try:
            pairs = raise_error(reply)
            found = {int(pair[0]): fds[int(pair[1])] for pair in pairs}
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        for fd in set(fds) - set(found.values()):
            os.close(fd)
        return found

    def read(
        self,
        lease: int,
        *,
        pool: str | None = None,
        start: int | None = None,
        stop: int | None = None,
        layers: tuple[int, int] | None = None,
    ) -> Any:
        """PROMPT.READ as it stands: bulks per layer and side (a dict of pools when several and none named).

        Large bulks come as writable memoryviews. Adapters use ``read_into``.
        """
        args: list[Argument] = [b"PROMPT.READ", lease]
        for word, value in ((b"POOL", pool), (b"FROM", start), (b"TO", stop)):
            if value is not None:
                args += [word, value]
        if layers is not None:
            args += [b"LAYERS", layers[0], layers[1]]

        def room(size: int) -> memoryview:
            return memoryview(np.empty(size, dtype=np.uint8))

        return raise_error(self._call([args], payload_bytes=1 << 30, bulks=[room], retry=False)[0])

    def put(
        self,
        model: str,
        tokens: Sequence[int] | np.ndarray,
        start: int,
        pools: Mapping[str, Any],
        *,
        salt: str = "",
        prefill_ms: float | None = None,
        manifest_hash: str | None = None,
        durable: bool = False,
        media: Sequence[Media] = (),
    ) -> Put:
        """Store the rows of tokens [start, len(tokens)). ``pools``: name -> packed buffer.

        Known tokens are skipped by the server (their first rows stay). Raises Gap, Mismatch, NoRoom,
        Revoked.
        """
        blobs = {name: memoryview(blob).cast("B") for name, blob in pools.items()}
        nbytes = sum(blob.nbytes for blob in blobs.values())
        head: list[Argument] = [b"PROMPT.PUT", model, as_tokens(tokens).tobytes(), start, *_options(salt, media)]
        tail: list[Argument] = []
        if prefill_ms is not None:
            tail += [b"PREFILL_MS", f"{prefill_ms:.3f}"]
        if manifest_hash:
            tail += [b"MANIFEST", manifest_hash]
        if durable:
            tail += [b"DURABLE"]
        if max((blob.nbytes for blob in blobs.values()), default=0) > LARGEST_BULK:
            reply = self._put_file(head, blobs, tail, nbytes)
        else:
            middle = [word for name, blob in blobs.items() for word in (b"POOL", name, blob)]
            reply = self._call([[*head, *middle, *tail]], payload_bytes=nbytes)[0]
        answer = as_map(raise_error(reply))
        segment = answer.get("segment")
        return Put(int(answer["from"]), int(answer["to"]), None if segment is None else int(segment))

    def _put_file(self, head: list[Argument], blobs: Mapping[str, memoryview], tail: list[Argument], nbytes: int) -> Any:
        """A PUT whose rows no bulk may hold: through a memory file, all pools one after the other. Only over a Unix socket."""
        if self._conn is None:
            self.ping()
        if self._conn is not None and not self._conn.is_unix:
            raise DataError(f"rows of more than {LARGEST_BULK} bytes in one pool are taken over a Unix socket only")
        fd = os.memfd_create("pion-put", os.MFD_CLOEXEC)
        try:
            middle: list[Argument] = []
            done = 0
            for name, blob in blobs.items():
                middle += [b"POOL", name, b"FD", 0, done, blob.nbytes]
                at = 0
                while at < blob.nbytes:
                    at += os.pwrite(fd, blob[at:], done + at)
                done += blob.nbytes
            return self._call([[*head, *middle, *tail]], payload_bytes=nbytes, fds=[fd])[0]
        finally:
            os.close(fd)

    def forget(self, model: str, tokens: Sequence[int] | np.ndarray, *, salt: str = "") -> int:
        """Forget everything that begins with ``tokens``; number of tokens forgotten."""
        return int(self.command(b"PROMPT.FORGET", model, as_tokens(tokens).tobytes(), *_options(salt, ())))

    def revoke_model(self, model: str) -> None:
        """Make everything stored under a model unreachable; durable before it returns."""
        self.command(b"PROMPT.REVOKE", b"MODEL", model)

    def revoke_salt(self, salt: str, *, model: str | None = None) -> None:
        """Make everything stored under a salt (of one model, or of all) unreachable."""
        extra: list[Argument] = [] if model is None else [b"MODEL", model]
        self.command(b"PROMPT.REVOKE", b"SALT", salt, *extra)

    def prompt_info(self, model: str | None = None) -> dict[str, Any]:
        """PROMPT.INFO: counters, bytes, budget."""
        extra: list[Argument] = [] if model is None else [model]
        return as_map(self.command(b"PROMPT.INFO", *extra))

    def prompt_list(self, model: str, *, salt: str | None = None, count: int | None = None, cursor: int | None = None) -> Any:
        """PROMPT.LIST: chains with tokens, bytes, hits, age."""
        args: list[Argument] = [b"PROMPT.LIST", model]
        for word, value in ((b"SALT", salt), (b"COUNT", count), (b"CURSOR", cursor)):
            if value is not None:
                args += [word, value]
        return self.command(*args)

    def stats(self) -> dict[str, Any]:
        """PION.STATS: hits, misses, tokens and bytes served, seconds of prefill avoided, ..."""
        return as_map(self.command(b"PION.STATS"))

    def info(self, section: str = "server") -> dict[str, str]:
        """INFO as a dict of its ``name:value`` lines."""
        return _parse_info(self.command(b"INFO", section))

    def first_sight(self, key: str, *, ttl_s: int = 86400) -> bool:
        """True the first time any client asks with this key (a string key with a time to live)."""
        return self.command(b"SET", key, b"1", b"NX", b"EX", ttl_s) is not None


def _options(salt: str, media: Sequence[Media]) -> list[Argument]:
    args: list[Argument] = [b"SALT", salt] if salt else []
    for item in media:
        args += [b"MEDIA", item.position, item.length, item.digest]
    return args


def _range_command(head: list[Argument], want: Want) -> list[Argument]:
    """READ or LOCATE of one Want. A ``trailing`` pool has no range: its one row is the boundary's."""
    args = [*head, b"POOL", want.pool.name]
    return args if want.pool.rule == "trailing" else [*args, b"FROM", want.start, b"TO", want.stop]


def _parse_info(reply: Any) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in text(reply).splitlines() if ":" in line and not line.startswith("#"))
    return {name: value for name, value in pairs}


def _info(conn: Connection, deadline: Deadline) -> dict[str, str]:
    conn.send([[b"INFO", b"server"]], deadline)
    reply = conn.reply(deadline)
    return {} if isinstance(reply, ReplyError) else _parse_info(reply)
