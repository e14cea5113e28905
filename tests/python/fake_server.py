"""A small server with the PROMPT.* wire, in Python: what the client's unit tests speak to.

It keeps rows per segment in one payload file, so that LOCATE, ATTACH and descriptor PUT are real, and it
can be told to misbehave (``faults``). It is a model of the contract, written for reading, not for speed;
the same client tests also run against the real server.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
import tempfile
import threading
import time
from dataclasses import dataclass, field
from hashlib import sha256

import xxhash

CHUNK = 65536


@dataclass
class Segment:
    """Rows of one PUT. ``rows[pool]`` is (first token, last token + 1, offset of the payload, payload length)."""

    id: int
    tokens: tuple
    start: int
    prefill_ms: float
    rows: dict = field(default_factory=dict)


class Error(Exception):
    """An error reply."""


def common(a, b):
    n = 0
    for x, y in zip(a, b):
        if x != y:
            break
        n += 1
    return n


def row_bytes(pool, layer, side):
    rb = pool["row_bytes"]
    return rb if isinstance(rb, int) else rb[layer][side]


class FakeServer:
    """Serves until ``close``. ``port`` and ``path`` say where; ``faults`` changes behaviour:

    "lease": leases have always run out at RELEASE; "flip": one byte of every payload read is wrong on disk;
    "no_attach": ATTACH and LOCATE are unknown; "corrupt": READ and LOCATE answer -CORRUPT once.
    """

    def __init__(self, unix=True, password=None):
        self.dir = tempfile.mkdtemp(prefix="pion-fake-")
        self.path = os.path.join(self.dir, "pion.sock") if unix else ""
        self.password = password
        self.faults = set()
        self.commands = []
        self.run_id = os.urandom(8).hex()
        self.models, self.segments, self.leases, self.claims, self.strings = {}, {}, {}, [], {}
        self.next_id = 1
        self.cond = threading.Condition()
        self.payload_path = os.path.join(self.dir, "1.dat")
        self.payload = open(self.payload_path, "w+b", buffering=0)
        self.payload_end = 4096
        self.listeners, self.conns = [], set()
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        self.listeners.append(tcp)
        if unix:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.path)
            listener.listen()
            self.listeners.append(listener)
        for listener in self.listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self):
        for listener in self.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        self.cut()

    def cut(self):
        """End all connections from our side."""
        for conn in list(self.conns):
            with contextlib.suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            self.conns.add(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    # -- wire --------------------------------------------------------------------------------

    def _serve(self, conn):
        session = {"conn": conn, "fds": [], "proto": 2, "auth": self.password is None, "buffer": bytearray()}
        try:
            while True:
                args = self._read_command(session)
                if args is None:
                    return
                try:
                    reply = self._dispatch(session, args)
                except Error as error:
                    reply = error
                fds = session.pop("send_fds", [])
                data = self._encode(reply, session["proto"])
                if fds:
                    sent = conn.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
                    for fd in fds:
                        os.close(fd)
                    data = data[sent:]
                conn.sendall(data)
        except OSError:
            pass
        finally:
            with self.cond:
                self.leases = {k: v for k, v in self.leases.items() if v["conn"] is not conn}
                self.claims = [c for c in self.claims if c["conn"] is not conn]
                self.cond.notify_all()
            conn.close()
            self.conns.discard(conn)

    def _more(self, session):
        data, anc, _, _ = session["conn"].recvmsg(1 << 20, socket.CMSG_SPACE(64 * 4))
        for level, kind, raw in anc:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(raw[: len(raw) // 4 * 4])
                session["fds"] += list(fds)
        session["buffer"] += data
        return bool(data)

    def _read_command(self, session):
        buffer = session["buffer"]

        def line():
            while (end := buffer.find(b"\r\n")) < 0:
                if not self._more(session):
                    return None
            out = bytes(buffer[:end])
            del buffer[: end + 2]
            return out

        head = line()
        if head is None:
            return None
        args = []
        for _ in range(int(head[1:])):
            size = int(line()[1:])
            while len(buffer) < size + 2:
                if not self._more(session):
                    return None
            args.append(bytes(buffer[:size]))
            del buffer[: size + 2]
        return args

    def _encode(self, v, proto):
        if isinstance(v, Error):
            return b"-%s\r\n" % str(v).encode()
        if v is None:
            return b"_\r\n" if proto == 3 else b"$-1\r\n"
        if isinstance(v, bool) or isinstance(v, int):
            return b":%d\r\n" % v
        if isinstance(v, str):
            return b"+%s\r\n" % v.encode()
        if isinstance(v, (bytes, bytearray)):
            return b"$%d\r\n%s\r\n" % (len(v), v)
        if isinstance(v, dict):
            items = b"".join(self._encode(k.encode(), proto) + self._encode(x, proto) for k, x in v.items())
            return (b"%%%d\r\n" % len(v) if proto == 3 else b"*%d\r\n" % (2 * len(v))) + items
        return b"*%d\r\n" % len(v) + b"".join(self._encode(x, proto) for x in v)

    def _dispatch(self, session, args):
        name = args[0].decode().upper()
        self.commands.append(name if name != "PROMPT.MODEL" else f"{name} {args[1].decode()}")
        rest = args[1:]
        if name == "HELLO":
            if b"AUTH" in rest:
                session["auth"] = rest[rest.index(b"AUTH") + 2].decode() == self.password
            if not session["auth"]:
                raise Error("WRONGPASS invalid username-password pair or user is disabled.")
            session["proto"] = 3
            return {"server": b"pion", "proto": 3}
        if not session["auth"]:
            raise Error("NOAUTH Authentication required.")
        if name == "PING":
            return "PONG"
        if name == "INFO":
            return f"# Server\r\nrun_id:{self.run_id}\r\nunixsocket:{self.path}\r\n".encode()
        if name == "SET":
            with self.cond:
                if rest[0] in self.strings:
                    return None
                self.strings[rest[0]] = rest[1]
            return "OK"
        handler = getattr(self, "do_" + name.replace("PROMPT.", "").lower(), None)
        if handler is None:
            raise Error(f"ERR unknown command '{name}'")
        with self.cond:
            return handler(session, rest)

    # -- commands (under the lock) -----------------------------------------------------------

    def do_model(self, session, a):
        op = a[0].upper()
        if op == b"LIST":
            return [m.encode() for m in self.models]
        name = a[1].decode()
        if op == b"SET":
            manifest = json.loads(a[2])
            manifest.pop("notes", None)
            old = self.models.get(name)
            if old is not None and old != manifest:
                fields = "; ".join(
                    f"{k} is {json.dumps(old.get(k))} there, {json.dumps(manifest.get(k))} here"
                    for k in sorted(set(old) | set(manifest))
                    if old.get(k) != manifest.get(k)
                )
                raise Error(f"MISMATCH model {name}: {fields}")
            self.models[name] = manifest
            return "OK"
        if name not in self.models:
            raise Error(f"NOMODEL {name}")
        if op == b"GET":
            raw = json.dumps(self.models[name], sort_keys=True).encode()
            return {"json": raw, "hash": self._hash(name).encode(), "tokens": 0, "bytes": len(raw)}
        del self.models[name]
        return "OK"

    def _hash(self, name):
        return sha256(json.dumps(self.models[name], sort_keys=True).encode()).hexdigest()

    def _open(self, a):
        model = a[0].decode()
        if model not in self.models:
            raise Error(f"NOMODEL {model}")
        return model, tuple(struct.unpack(f"<{len(a[1]) // 4}I", a[1]))

    @staticmethod
    def _options(a, flags=()):
        out, i = {}, 0
        while i < len(a):
            word = a[i].decode().upper()
            if word in flags:
                out[word] = True
                i += 1
            else:
                out[word] = a[i + 1]
                i += 2
        return out

    def _check_hash(self, model, options):
        if "MANIFEST" in options and options["MANIFEST"].decode() != self._hash(model):
            raise Error(f"MISMATCH model {model}: manifest is other there")

    def _source(self, chain, tokens, pool, i):
        for segment in chain:
            row = segment.rows.get(pool)
            if row and row[0] <= i < row[1] and common(segment.tokens, tokens) > i:
                return segment
        return None

    def _sources(self, key, tokens, pool, start, stop):
        chain = self.segments.get(key, [])
        return [self._source(chain, tokens, pool, i) for i in range(start, stop)]

    def _state(self, key, tokens, m):
        return next((s for s in self.segments.get(key, []) if s.tokens[:m] == tokens[:m] and len(s.tokens) == m), None)

    def _matched(self, key, tokens, most):
        chain = self.segments.get(key, [])
        m = min(most, max((common(s.tokens, tokens) for s in chain), default=0))
        pools = self.models[key[0]]["pools"]
        have = {p["name"]: self._sources(key, tokens, p["name"], 0, m) for p in pools if p["rule"] != "trailing"}
        while m > 0:
            ok = True
            for p in pools:
                if p["rule"] == "trailing":
                    s = self._state(key, tokens, m)
                    ok = ok and s is not None and p["name"] in s.rows
                elif p["rule"] == "window":
                    need = [*range(max(0, m - p["window"]), m), *range(min(p.get("keep", 0), m))]
                    ok = ok and all(have[p["name"]][i] is not None for i in need)
            if ok:
                return m
            m -= 1
        return 0

    def do_match(self, session, a):
        model, tokens = self._open(a)
        o = self._options(a[2:])
        self._check_hash(model, o)
        key = (model, o.get("SALT", b""))
        most = int(o.get("MAX", len(tokens)))
        until = time.monotonic() + int(o.get("WAIT", 0)) / 1000
        claimed = 0
        first = self._matched(key, tokens, min(most, len(tokens)))
        while True:
            m = self._matched(key, tokens, min(most, len(tokens)))
            if "CLAIM" not in o or m >= min(most, len(tokens)):
                break
            now = time.monotonic()
            self.claims = [c for c in self.claims if c["until"] > now]
            other = [
                c
                for c in self.claims
                if c["key"] == key and c["conn"] is not session["conn"] and common(c["tokens"], tokens) > m
            ]
            if not other:
                ms = int(o["CLAIM"])
                self.claims.append(
                    {"key": key, "tokens": tokens, "conn": session["conn"], "until": now + ms / 1000, "ms": ms}
                )
                claimed = 1
                break
            if m > first or now >= until:
                break
            self.cond.wait(min(until - now, 0.1))
        lease = None
        if m and int(o.get("LEASE", 10000)):
            lease = self.next_id
            self.next_id += 1
            self.leases[lease] = {
                "key": key,
                "tokens": tokens[:m],
                "conn": session["conn"],
                "until": time.monotonic() + int(o.get("LEASE", 10000)) / 1000,
            }
        fork = None
        for s in self.segments.get(key, []):
            c = common(s.tokens, tokens)
            if c == max((common(x.tokens, tokens) for x in self.segments[key]), default=0) and c < len(s.tokens):
                fork = [c, s.tokens[c]]
                break
        return {
            "matched": m,
            "lease": lease,
            "segments": [[1, 0, m]] if m else [],
            "saved_ms": 0,
            "restore_ms": 0,
            "claimed": claimed,
            "fork": fork,
        }

    def do_put(self, session, a):
        model, tokens = self._open(a)
        start = int(a[2])
        key, blobs, o = None, {}, {}
        i = 3
        while i < len(a):
            word = a[i].decode().upper()
            if word == "POOL":
                if a[i + 2].upper() == b"FD" and len(a[i + 2]) == 2:
                    fd, offset, length = session["fds"][int(a[i + 3])], int(a[i + 4]), int(a[i + 5])
                    blobs[a[i + 1].decode()] = os.pread(fd, length, offset)
                    i += 6
                else:
                    blobs[a[i + 1].decode()] = a[i + 2]
                    i += 3
            elif word == "DURABLE":
                i += 1
            else:
                o[word] = a[i + 1]
                i += 2
        for fd in session["fds"]:
            os.close(fd)
        session["fds"] = []
        key = (model, o.get("SALT", b""))
        self._check_hash(model, o)
        chain = self.segments.setdefault(key, [])
        known = max((common(s.tokens, tokens) for s in chain), default=0)
        if start > known:
            raise Error(f"GAP stored up to {known}")
        segment = Segment(self.next_id, tokens, max(known, start), float(o.get("PREFILL_MS", 0)))
        new = False
        for pool in self.models[model]["pools"]:
            if pool["name"] not in blobs:
                raise Error(f"ERR pool {pool['name']} is missing")
            new |= self._store_pool(segment, key, pool, blobs[pool["name"]], start, len(tokens), known)
        for claim in self.claims:
            if claim["conn"] is session["conn"]:
                claim["until"] = time.monotonic() + claim["ms"] / 1000
                if len(tokens) >= len(claim["tokens"]) and tokens[: len(claim["tokens"])] == claim["tokens"]:
                    claim["until"] = 0
        if not new:
            return {"from": len(tokens), "to": len(tokens), "segment": None}
        self.next_id += 1
        chain.append(segment)
        self.cond.notify_all()
        return {"from": min(known, len(tokens)), "to": len(tokens), "segment": segment.id}

    def _store_pool(self, segment, key, pool, blob, start, n, known):
        if pool["rule"] == "trailing":
            ranges = [(n - 1, n)]
        elif pool["rule"] == "window":
            lo, head = max(start, n - pool["window"]), min(pool.get("keep", 0), n)
            ranges = [(lo, n)] if start >= head else [(start, head), (lo, n)] if head < lo else [(start, n)]
        else:
            ranges = [(start, n)]
        if len(ranges) > 1:
            raise Error("ERR this fake server stores no split windows")
        lo, hi = ranges[0]
        want = sum(
            (hi - lo) * row_bytes(pool, layer, side)
            for layer in range(pool["layers"])
            for side in range(len(pool["sides"]))
        )
        if len(blob) != want:
            raise Error(f"ERR pool {pool['name']}: {want} bytes expected, {len(blob)} given")
        first = lo if pool["rule"] == "trailing" else max(lo, known if pool["rule"] == "all" else lo)
        if pool["rule"] == "window":
            if all(self._sources(key, segment.tokens, pool["name"], lo, hi)):
                return False
        if pool["rule"] == "trailing":
            if (s := self._state(key, segment.tokens, n)) is not None and pool["name"] in s.rows:
                return False
        if first >= hi:
            return False
        parts, at = [], 0
        for layer in range(pool["layers"]):
            for side in range(len(pool["sides"])):
                rb = row_bytes(pool, layer, side)
                parts.append(blob[at + (first - lo) * rb : at + (hi - lo) * rb])
                at += (hi - lo) * rb
        data = b"".join(parts)
        base = self.payload_end + 48
        os.pwrite(self.payload.fileno(), data, base)
        self.payload_end = (base + len(data) + 4095) // 4096 * 4096
        segment.rows[pool["name"]] = (first, hi, base, len(data))
        return True

    def _lease(self, session, raw):
        lease = self.leases.get(int(raw))
        if lease is None or lease["conn"] is not session["conn"] or lease["until"] < time.monotonic():
            raise Error("NOLEASE it has run out or never was")
        if "corrupt" in self.faults:
            self.faults.discard("corrupt")
            raise Error("CORRUPT segment 1 is damaged and gone")
        return lease

    def _runs(self, lease, options):
        model = self.models[lease["key"][0]]
        pools = [p for p in model["pools"] if options.get("POOL", p["name"].encode()).decode() == p["name"]]
        out = {}
        tokens, m = lease["tokens"], len(lease["tokens"])
        for pool in pools:
            default = max(0, m - pool["window"]) if pool["rule"] == "window" else 0
            start, stop = int(options.get("FROM", default)), int(options.get("TO", m))
            if pool["rule"] == "trailing":
                start, stop = m - 1, m
                sources = [self._state(lease["key"], tokens, m)]
            else:
                sources = self._sources(lease["key"], tokens, pool["name"], start, stop)
            if None in sources:
                raise Error(f"ERR rows {start}..{stop} of pool {pool['name']} are not all there")
            lists = []
            for layer in range(pool["layers"]):
                for side in range(len(pool["sides"])):
                    rb = row_bytes(pool, layer, side)
                    runs, i = [], 0
                    while i < len(sources):
                        j = i
                        while j < len(sources) and sources[j] is sources[i]:
                            j += 1
                        lo, hi, base, length = sources[i].rows[pool["name"]]
                        before = sum(
                            (hi - lo) * row_bytes(pool, x, y)
                            for x in range(pool["layers"])
                            for y in range(len(pool["sides"]))
                            if (x, y) < (layer, side)
                        )
                        runs.append((base + before + (start + i - lo) * rb, (j - i) * rb, base, length))
                        i = j
                    lists.append(runs)
            out[pool["name"]] = lists
        return out, "POOL" in options or len(pools) == 1

    def do_read(self, session, a):
        lease = self._lease(session, a[0])
        out, single = self._runs(lease, self._options(a[1:]))
        fd = self.payload.fileno()
        bulks = {
            name: [b"".join(os.pread(fd, size, offset) for offset, size, _, _ in runs) for runs in lists]
            for name, lists in out.items()
        }
        return next(iter(bulks.values())) if single else bulks

    def do_locate(self, session, a):
        if "no_attach" in self.faults:
            raise Error("ERR unknown command 'PROMPT.LOCATE'")
        lease = self._lease(session, a[0])
        out, single = self._runs(lease, self._options(a[1:], ("UNVERIFIED",)))
        fd = self.payload.fileno()
        located = {}
        for name, lists in out.items():
            located[name] = []
            for runs in lists:
                parts = []
                for offset, size, base, length in runs:
                    first, last = (offset - base) // CHUNK, (offset - base + size - 1) // CHUNK
                    sums = b""
                    for c in range(first, last + 1):
                        data = os.pread(fd, min(CHUNK, length - c * CHUNK), base + c * CHUNK)
                        sums += struct.pack("<Q", xxhash.xxh3_64_intdigest(data))
                    parts.append([1, offset, size, base, sums, length])
                located[name].append(parts)
        if "flip" in self.faults:
            offset = next(iter(located.values()))[-1][0][1]
            byte = os.pread(fd, 1, offset)
            os.pwrite(fd, bytes([byte[0] ^ 1]), offset)
        return next(iter(located.values())) if single else located

    def do_attach(self, session, a):
        session["send_fds"] = [os.open(self.payload_path, os.O_RDONLY)]
        return [[1, 0]]

    def do_release(self, session, a):
        lease = self.leases.get(int(a[0]))
        if lease is None or lease["conn"] is not session["conn"]:
            return 0
        del self.leases[int(a[0])]
        return 0 if "lease" in self.faults or lease["until"] < time.monotonic() else 1

    def do_forget(self, session, a):
        model, tokens = self._open(a)
        key = (model, self._options(a[2:]).get("SALT", b""))
        old = self.segments.get(key, [])
        kept = [s for s in old if s.tokens[: len(tokens)] != tokens]
        self.segments[key] = kept
        return sum(len(s.tokens) - s.start for s in old) - sum(len(s.tokens) - s.start for s in kept)

    def do_revoke(self, session, a):
        what = a[1].decode() if a[0].upper() == b"MODEL" else None
        for key in list(self.segments):
            if key[0] == what or a[0].upper() == b"SALT" and key[1] == a[1]:
                del self.segments[key]
        return "OK"

    def do_info(self, session, a):
        return {"bytes": self.payload_end, "segments": sum(len(s) for s in self.segments.values())}

    def do_list(self, session, a):
        return [[len(s.tokens)] for key, chain in self.segments.items() if key[0] == a[0].decode() for s in chain]


if __name__ == "__main__":
    server = FakeServer()
    print(server.port, server.path, flush=True)
    threading.Event().wait()
