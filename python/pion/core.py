"""What all engine adapters share: match, restore, prefill the rest, store it, say what happened.

One :class:`PromptCore` serves one engine context. Its promises:

* after ``acquire`` the engine holds exactly the tokens asked, whatever the server did;
* a failure at any moment of a restore clears the engine and prefills: never half a state;
* storing runs behind the caller, on a connection of its own;
* of many processes that need one cold prefix at once, one prefills it, the others wait for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from .client import DEFAULT_PORT, Client, Match
from .engine import Engine, Fork, Report
from .errors import Corrupt, Mismatch, NoModel, PionError, Refused, ReplyError
from .measure import BreakEven
from .pools import as_tokens
from .store import Chain, Piece, Storer

log = logging.getLogger("pion")

_FORK_HEAD_TOKENS = 64  # a prompt that parts so early shares nothing worth having
_FORK_LONG_TOKENS = 256
_FORKS_BEFORE_WARNING = 3
_SIBLINGS = 8
_WAIT_SLICE_MS = 1_000  # a wait is asked for in slices, so that a dead server is noticed
_UNKNOWN = -1


class PromptCore:
    """Prompt memory for one engine context. See the module for its promises.

    ``namespace`` becomes the salt: prompts of different namespaces never see each other. ``model``
    fixes the name on the wire (then another identity under it is a mismatch that is reported);
    by default the name carries a digest of the manifest. ``step`` is the number of tokens between
    two PUTs (a multiple of the engine's block). Tails shorter than ``min_store`` are not stored.
    ``replay`` is how many of the last tokens are evaluated anew even when stored (at least 1 where
    logits are needed). ``second_sight`` stores only what some client has asked for before.
    """

    def __init__(
        self,
        engine: Engine,
        client: Client | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        unix_socket: str | None = None,
        password: str | None = None,
        namespace: str = "",
        model: str | None = None,
        step: int | None = None,
        min_store: int = 64,
        replay: int = 1,
        room: int = 0,
        store: bool = True,
        second_sight: bool = False,
        enabled: bool = True,
        lease_ms: int = 30_000,
        claim_ms: int = 15_000,
        wait_ms: int = 20_000,
    ) -> None:
        self.engine = engine
        self.client = client or Client(host, port, unix_socket=unix_socket, password=password)
        self.storer = Storer(self.client.twin("pion-python-store"))
        self.namespace, self.enabled, self.store, self.second_sight = namespace, enabled, store, second_sight
        self.min_store, self.replay, self.room = min_store, replay, room
        self.lease_ms, self.claim_ms, self.wait_ms = lease_ms, claim_ms, wait_ms
        self.step = self._check_step(step)
        self.break_even = BreakEven()
        self.last: Report | None = None
        self.siblings: dict[str, list[str]] = {}
        self._fixed_name = model
        self._generation: str | None = None
        self._canonical: str | None = None
        # What the live state was evaluated under; asked only of engines that tell what they hold.
        self._tracks_live = engine.reuse.kind != "none" and type(engine).resident is not Engine.resident
        self._live_identity = self._identity_now() if self._tracks_live else ""
        self._model = ""
        self._hash: str | None = None
        self._early_forks = 0
        self._warned: set[str] = set()
        if enabled:
            log.info("pion: %s: reuse: %s (%s)", engine.model_name, engine.reuse.kind, engine.reuse.why)

    # -- set-up ------------------------------------------------------------------------------

    def _check_step(self, step: int | None) -> int:
        block = self.engine.block
        windows = [pool.window for pool in self.engine.pools if pool.rule == "window"]
        if step is None:
            step = block * max(1, 256 // block)
            if windows and step > min(windows):
                # Rows older than a window are gone after the step: a window model stays cuttable at
                # any token only while no step is longer than its window.
                step = block * (min(windows) // block) or min(windows)
        elif step < 1 or step % block:
            raise ValueError(f"step {step} is no multiple of the engine's block of {block} tokens")
        return step

    @property
    def model(self) -> str:
        """Name of the model on the wire ("" before the first call)."""
        return self._model

    def _manifest(self, *, reread: bool = False) -> dict[str, Any]:
        manifest = dict(self.engine.manifest(reread=reread))
        if self._generation:
            manifest["generation"] = self._generation
        return manifest

    def _identity(self, manifest: dict[str, Any]) -> str:
        """The manifest without its notes, in one form."""
        identity = {key: value for key, value in manifest.items() if key != "notes"}
        return json.dumps(identity, sort_keys=True, separators=(",", ":"))

    def _identity_now(self) -> str:
        """As above, of the engine as it is; "" when it has none that can be named."""
        try:
            return self._identity(self._manifest())
        except Refused:
            return ""

    def _declare(self) -> None:
        """Make sure the server knows the model as it is now."""
        manifest = self._manifest()
        canonical = self._identity(manifest)
        if canonical == self._canonical:
            return
        digest = hashlib.sha256(canonical.encode()).hexdigest()[:12]
        name = self._fixed_name or f"{self.engine.model_name}@{digest}"
        self._canonical = None
        self.client.model_set(name, manifest)
        self._hash = self.client.model_get(name).get("hash")
        self._model, self._canonical = name, canonical
        if self._fixed_name is None:
            self.siblings = self._find_siblings(json.loads(canonical))

    def _find_siblings(self, identity: dict[str, Any]) -> dict[str, list[str]]:
        """Models of the same short name under other identities, and in which fields they differ."""
        found: dict[str, list[str]] = {}
        head = self.engine.model_name + "@"
        for name in self.client.model_list():
            if name.startswith(head) and name != self._model and len(found) < _SIBLINGS:
                other = self.client.model_get(name).get("json")
                if isinstance(other, dict):
                    found[name] = list(differing_fields(identity, other))
        return found

    def model_changed(self) -> None:
        """Weights or adapters were changed in place: nothing stored before is matched any more.

        Reads the identity anew; if it cannot see the change, a generation of its own separates
        what comes from what was.
        """
        before = self._manifest()
        if self._manifest(reread=True) == before:
            self._generation = uuid.uuid4().hex
        self._canonical = None
        self.engine.clear()
        self._live_identity = self._identity_now() if self._tracks_live else ""

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until all that was prefilled is stored; False when that took too long."""
        return self.storer.flush(timeout_s)

    def close(self) -> None:
        """Flush and close both connections."""
        self.storer.close()
        self.client.close()

    # -- the calls ---------------------------------------------------------------------------

    def matched_tokens(self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None) -> int:
        """How many leading tokens the server holds now (0 when it cannot be asked)."""
        if not self.enabled or self.engine.reuse.kind == "none":
            return 0
        try:
            self._declare()
            salt = self.namespace if namespace is None else namespace
            return self.client.match(self._model, ids, salt=salt, lease_ms=0, manifest_hash=self._hash).matched
        except (PionError, Refused):
            return 0

    def store_live(self, *, namespace: str | None = None) -> Report:
        """Store what the engine holds now, as it was fed; what is stored already is not sent."""
        began = time.perf_counter()
        live = self.engine.resident()
        report = Report(tokens=0 if live is None else int(live.size))
        if live is not None and self._tracks_live and self._identity_now() != self._live_identity:
            report.why = "the model's identity changed since these tokens were evaluated"
            return self._done(report, began)
        if live is None or not self.enabled or self.engine.reuse.kind == "none":
            report.why = "nothing in the engine that may be stored"
            return self._done(report, began)
        salt = self.namespace if namespace is None else namespace
        tokens = as_tokens(live)
        media = self.engine.media_start(tokens)
        try:
            self._declare()
            known = self.client.match(self._model, tokens, salt=salt, lease_ms=0, manifest_hash=self._hash).matched
            report.matched = known
            if known < tokens.size and media is None:
                chain = Chain(report)
                self._export(tokens, known, salt, self.break_even.prefill.cost(tokens.size - known), chain)
                report.why = chain.broken
        except (PionError, Refused) as error:
            report.why = str(error)
        return self._done(report, began)

    def prefill(self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None) -> Report:
        """Make sure all of ``ids`` is stored, without generating. Idempotent: what is stored is not fed.

        When everything is stored already the engine is left as it was.
        """
        return self.acquire(ids, leave=0, namespace=namespace, store_all=True, only_store=True)

    def acquire(
        self,
        ids: Sequence[int] | np.ndarray,
        *,
        leave: int = 1,
        namespace: str | None = None,
        boundaries: Sequence[int] = (),
        store_all: bool = False,
        only_store: bool = False,
    ) -> Report:
        """Bring the engine to exactly ``ids``: restore what is stored, prefill and store the rest.

        At least the last ``leave`` tokens are evaluated, so that there are logits (0: none needed, a
        suffix follows). ``boundaries`` are token counts at which prefilling stops to store (turn
        starts: models with recurrent state can be cut only there). ``store_all`` stores short tails too.
        """
        began = time.perf_counter()
        tokens = as_tokens(ids)
        if tokens.size == 0:
            raise ValueError("an empty prompt")
        engine = self.engine
        if engine.n_ctx is not None and tokens.size > engine.n_ctx:
            raise ValueError(f"a prompt of {tokens.size} tokens, the context holds {engine.n_ctx}")
        report = Report(tokens=int(tokens.size))
        salt = self.namespace if namespace is None else namespace
        leave = max(leave, self.replay) if leave else 0
        limit = max(0, min(tokens.size - leave, (engine.n_ctx or tokens.size) - (self.room if leave else 0)))
        media = engine.media_start(tokens)
        storable = int(tokens.size) if media is None else media
        limit = min(limit, storable)
        held = self._hold_resident(tokens, limit, cut=not only_store) if self._tracks_live else 0
        known, at = _UNKNOWN, 0
        try:
            if not self.enabled:
                report.why = "switched off"
            elif engine.reuse.kind == "none":
                report.why = engine.reuse.why
            elif not only_store and not self.break_even.pays(limit, limit - held):
                report.why = f"{limit} tokens are too few to pay for fetching them"
            elif only_store or limit - held >= (self.min_store if held else 1):
                known, at = self._from_store(tokens, limit, storable, held, salt, report, store_all, only_store)
                if only_store and known != _UNKNOWN and known >= storable:
                    report.matched = known
                    return self._done(report, began)
            if at == 0:
                at = report.resident = held
            if at == 0:
                engine.clear()
            self._feed(tokens, at, known, storable, salt, report, boundaries, store_all)
            if report.matched and leave and not engine.logits_finite():
                self._start_over(tokens, report)
        except BaseException:
            engine.clear()
            raise
        return self._done(report, began)

    def _done(self, report: Report, began: float) -> Report:
        report.total_ms = (time.perf_counter() - began) * 1000
        self.last = report
        return report

    def _hold_resident(self, tokens: np.ndarray, limit: int, *, cut: bool) -> int:
        """Cut the engine to the leading tokens it shares with the prompt; how many, 0 when it cannot be exact.

        Only what the very same model evaluated counts. Without ``cut`` a live state is used whole or not.
        """
        identity = self._identity_now()
        same, self._live_identity = identity == self._live_identity, identity
        live = self.engine.resident() if same else None
        if live is None or live.size == 0 or limit <= 0:
            return 0
        held = common_prefix(live, tokens[:limit])
        if held == 0 or held < live.size and not cut:
            return 0
        return held if self.engine.keep_resident(held) else 0

    def _start_over(self, tokens: np.ndarray, report: Report) -> None:
        """A restored state gave logits that are no numbers: heal the context and prefill."""
        self._warn("nan", "pion: a restored state gave non-finite logits; cleared and prefilled anew")
        report.why = "the stored state is not finite"
        report.matched = report.fed = 0
        report.steps.clear()
        self.engine.clear()
        self._feed(tokens, 0, _UNKNOWN, 0, "", report, (), False)

    # -- looking up and restoring ------------------------------------------------------------

    def _from_store(
        self,
        tokens: np.ndarray,
        limit: int,
        storable: int,
        held: int,
        salt: str,
        report: Report,
        store_all: bool,
        only_store: bool,
    ) -> tuple[int, int]:
        """(tokens the server holds, or _UNKNOWN when it cannot be asked; tokens restored into the engine)."""
        try:
            self._declare()
            most = storable if only_store else limit
            match = self._match(tokens, most, salt, report)
            missing = storable - match.matched
            if self.store and not self.second_sight and missing >= (1 if store_all else self.min_store):
                match = self._claim(tokens, match, most, storable, salt, report, store_all)
            known = match.matched
            self._explain(tokens, match, limit, report)
            if known <= held or only_store and known >= storable:
                self._release(match)
                return known, 0
            if not self.break_even.pays(known, known - held):
                self._release(match)
                report.why = f"{known} stored tokens are too few to pay for fetching them"
                return known, 0
            restored = self._restore(tokens, match, salt, report, retry=True)
            return max(known, restored), restored
        except Mismatch as error:
            report.mismatch = error.fields
            report.why = str(error)
            self._warn(f"mismatch {error.fields}", "pion: nothing is reused: %s", error)
        except ReplyError as error:
            report.why = str(error)
            self._warn(error.code, "pion: going on without the store: %s", error)
        except PionError as error:
            report.why = str(error)
        except Refused as error:
            report.why = str(error)
            self._warn("identity", "pion: nothing is reused: %s", error)
        return _UNKNOWN, 0

    def _match(self, tokens: np.ndarray, most: int, salt: str, report: Report) -> Match:
        began = time.perf_counter()
        for attempt in (0, 1):
            try:
                match = self.client.match(
                    self._model,
                    tokens,
                    salt=salt,
                    most=most,
                    lease_ms=self.lease_ms,
                    manifest_hash=self._hash,
                )
                break
            except NoModel:  # revoked, or the server lost its directory: the name starts empty
                if attempt:
                    raise
                self._canonical = None
                self._declare()
        report.match_ms += (time.perf_counter() - began) * 1000
        return match

    def _claim(
        self,
        tokens: np.ndarray,
        match: Match,
        most: int,
        storable: int,
        salt: str,
        report: Report,
        store_all: bool,
    ) -> Match:
        """Claim what is missing, or wait while another process prefills it; the match afterwards.

        The claim is for exactly the tokens that will be stored, so that the last PUT fulfils it, and
        it belongs to the connection that stores.
        """
        goal = self._store_goal(match.matched, storable, store_all)
        best = match.matched
        claim_ms = max(self.claim_ms, int(4 * self.break_even.prefill.cost(self.step)))
        began = progress = time.perf_counter()
        while goal - best >= (1 if store_all else self.min_store):
            answer = self.storer.client.match(
                self._model,
                tokens[:goal],
                salt=salt,
                lease_ms=0,
                manifest_hash=self._hash,
                claim_ms=claim_ms,
                wait_ms=min(_WAIT_SLICE_MS, self.wait_ms),
            )
            now = time.perf_counter()
            if answer.matched > best:
                best, progress = answer.matched, now
            report.claimed = answer.claimed
            if answer.claimed or (now - progress) * 1000 >= self.wait_ms:
                break
        report.wait_ms += (time.perf_counter() - began) * 1000
        if best <= match.matched:
            return match
        self._release(match)
        return self._match(tokens, most, salt, report)

    def _store_goal(self, known: int, storable: int, store_all: bool) -> int:
        """Where storing of this prompt will end: its end, or the last full step before a short tail."""
        tail = (storable - known) % self.step
        return storable if store_all or tail >= self.min_store else storable - tail

    def _release(self, match: Match) -> None:
        if match.lease is not None:
            self.client.release(match.lease)

    def _restore(self, tokens: np.ndarray, match: Match, salt: str, report: Report, *, retry: bool) -> int:
        """Tokens restored; 0 (engine cleared) when that failed."""
        if match.lease is None or match.matched == 0:
            return 0
        began = time.perf_counter()
        try:
            wants = self.engine.begin_restore(match.matched)
            fetch = self.client.read_into(match.lease, wants)
            self.engine.finish_restore(tokens[: match.matched])
        except Corrupt as error:
            self.engine.clear()
            report.why = str(error)
            if retry:  # the server has dropped the damaged segment: what is left is shorter but whole
                again = self._match(tokens, match.matched, salt, report)
                return self._restore(tokens, again, salt, report, retry=False)
            return 0
        except (PionError, Refused) as error:
            self.engine.clear()
            report.why = f"restore failed: {error}"
            self._warn("restore " + type(error).__name__, "pion: %s; cleared, prefilling", report.why)
            return 0
        report.restore_ms = (time.perf_counter() - began) * 1000
        report.matched, report.bytes_read, report.lane = match.matched, fetch.bytes, fetch.lane
        self.break_even.fetch.add(match.matched, report.restore_ms + report.match_ms)
        return match.matched

    def _explain(self, tokens: np.ndarray, match: Match, limit: int, report: Report) -> None:
        """Say why not more was matched, and where the prompt parts from what is stored."""
        if match.matched >= limit:
            return
        fork = match.fork
        if fork is not None and fork[0] < tokens.size and int(tokens[fork[0]]) != fork[1]:
            asked = int(tokens[fork[0]])
            text = self.engine.text
            report.fork = Fork(fork[0], fork[1], asked, text(fork[1]), text(asked))
            report.why = f"the prompt parts from what is stored at {report.fork}"
            self._count_fork(report.fork, tokens.size)
        elif match.matched == 0:
            report.why = "nothing stored begins like this prompt"
            if self.siblings:
                name, fields = next(iter(self.siblings.items()))
                report.mismatch = fields
                report.why += f" ({name} differs in {', '.join(fields)})"
        else:
            report.why = f"stored up to token {match.matched}"

    def _count_fork(self, fork: Fork, size: int) -> None:
        if fork.position >= _FORK_HEAD_TOKENS or size < _FORK_LONG_TOKENS:
            self._early_forks = 0
            return
        self._early_forks += 1
        if self._early_forks == _FORKS_BEFORE_WARNING:
            self._warn(
                "forks",
                "pion: long prompts keep parting near their start, so nothing is reused; the last one at %s. "
                "Something that changes (a date, a counter) stands there: move it towards the end.",
                fork,
            )

    # -- prefilling and storing --------------------------------------------------------------

    def _feed(
        self,
        tokens: np.ndarray,
        at: int,
        known: int,
        storable: int,
        salt: str,
        report: Report,
        boundaries: Sequence[int],
        store_all: bool,
    ) -> None:
        """Feed tokens[at:] in steps; store rows [known, ...) of it step by step."""
        chain = Chain(report)
        size = int(tokens.size)
        storing = self.enabled and self.store and known != _UNKNOWN and known < storable
        ends = list(self._steps(at, size, storable, boundaries))
        goal = self._seen_goal(tokens, ends, known, storable, salt) if storing else 0
        unstored = known
        since = 0.0  # milliseconds of prefill since the last export
        for stop in ends:
            began = time.perf_counter()
            self.engine.feed(tokens[at:stop], last=stop == size)
            ms = (time.perf_counter() - began) * 1000
            self.break_even.prefill.add(stop - at, ms)
            report.fed += stop - at
            report.prefill_ms += ms
            report.steps.append(stop - at)
            since += ms
            at = stop
            tail = stop - unstored < self.min_store and stop == size and not store_all
            if storing and unstored < stop <= goal and not tail and not chain.broken:
                self._export(tokens[:stop], unstored, salt, since, chain)
                unstored, since = stop, 0.0

    def _export(self, tokens: np.ndarray, start: int, salt: str, ms: float | None, chain: Chain) -> None:
        try:
            blobs = self.engine.export(start, int(tokens.size))
        except Refused as error:
            chain.broken = str(error)
            self._warn("refused", "pion: this state is not stored: %s", error)
            return
        self.storer.put(
            Piece(chain, self._model, self._hash, salt, tokens.copy(), start, self.engine.pools, blobs, ms)
        )

    def _steps(self, at: int, size: int, storable: int, boundaries: Sequence[int]) -> Iterator[int]:
        """Ends of the steps from ``at`` to ``size``; boundaries and the end of what is storable are ends."""
        cuts = sorted({b for b in (*boundaries, storable) if at < b < size})
        while at < size:
            stop = min(at + self.step, size)
            while cuts and cuts[0] <= at:
                cuts.pop(0)
            if cuts and cuts[0] < stop:
                stop = cuts[0]
            yield stop
            at = stop

    def _seen_goal(self, tokens: np.ndarray, ends: Sequence[int], known: int, storable: int, salt: str) -> int:
        """Up to where to store: everything storable, or with ``second_sight`` what was asked before."""
        if not self.second_sight:
            return storable
        goal = known
        try:
            for stop in ends:
                if not known < stop <= storable:
                    continue
                state = xxhash.xxh3_128()
                state.update(tokens[:stop].tobytes())
                state.update(salt.encode())
                if self.client.first_sight(f"pion:seen:{self._model}:{state.hexdigest()}"):
                    continue
                goal = stop
        except PionError:
            return known
        return goal

    def _warn(self, kind: str, message: str, *args: object) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning(message, *args)


def common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Number of leading ids that two arrays share."""
    size = min(a.size, b.size)
    differ = np.nonzero(a[:size] != b[:size])[0]
    return int(differ[0]) if differ.size else int(size)


def differing_fields(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """Paths at which two manifests differ, such as ``pools[0].dtype``."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            if key == "notes" and not path:
                continue
            inner = f"{path}.{key}" if path else key
            if key not in a or key not in b:
                yield inner
            else:
                yield from differing_fields(a[key], b[key], inner)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differing_fields(x, y, f"{path}[{i}]")
    elif a != b:
        yield path
