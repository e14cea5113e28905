"""What all engine adapters share: match, restore, prefill the rest, store it, say what happened.

One :class:`PromptCore` serves one engine context. Its promises:

* after ``acquire`` the engine holds exactly the tokens asked, whatever the server did;
* a failure at any moment of a restore clears the engine and prefills: never half a state;
* storing runs behind the caller, on a connection of its own;
* of many processes that need one cold prefix at once, one prefills it, the others wait for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .call import UNKNOWN, Call, checked_media
from .client import DEFAULT_PORT, Client, Match, Media
from .engine import Engine, Fork, Report
from .errors import Corrupt, Mismatch, NoModel, PionError, Refused, ReplyError
from .forks import ForkWatch
from .identity import Identity
from .measure import BreakEven
from .pools import as_tokens
from .store import Chain, Piece, Storer

log = logging.getLogger("pion")

_WAIT_SLICE_MS = 1_000  # a wait is asked for in slices, so that a dead server is noticed


class PromptCore:
    """Prompt memory for one engine context. See the module for its promises.

    ``namespace`` becomes the salt: prompts of different namespaces never see each other. ``model``
    fixes the name on the wire (then another identity under it is a mismatch that is reported);
    by default the name carries a digest of the manifest. ``step`` is the number of tokens between
    two PUTs (a multiple of the engine's block). Tails shorter than ``min_store`` are not stored.
    ``replay`` is how many of the last tokens are evaluated anew even when stored (at least 1 where
    logits are needed); ``room`` how many tokens of the context are kept free for the answer.
    ``second_sight`` stores only what some client has asked for before. Not thread safe.
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
        claim_ms: int = 60_000,
        wait_ms: int = 60_000,
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
        self.identity = Identity(engine, self.client, model)
        # What the live state was evaluated under; asked only of engines that tell what they hold.
        self._tracks_live = engine.reuse.kind != "none" and type(engine).resident is not Engine.resident
        self._live_identity = self.identity.now() if self._tracks_live else ""
        self._live_media: tuple[Media, ...] = ()
        self._peeked: tuple[bytes, str, float, Match] | None = None
        self._forks = ForkWatch()
        self._warned: set[str] = set()
        if enabled:
            log.info("pion: %s: reuse: %s (%s)", engine.model_name, engine.reuse.kind, engine.reuse.why)

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
        return self.identity.name

    @property
    def siblings(self) -> dict[str, list[str]]:
        """Variants of this model on the server, and the fields in which they differ."""
        return self.identity.siblings

    @property
    def _usable(self) -> bool:
        return self.enabled and self.engine.reuse.kind != "none"

    # -- the calls ---------------------------------------------------------------------------

    def acquire(
        self,
        ids: Sequence[int] | np.ndarray,
        *,
        leave: int = 1,
        namespace: str | None = None,
        boundaries: Sequence[int] = (),
        media: Sequence[Media] = (),
        store_all: bool = False,
        only_store: bool = False,
    ) -> Report:
        """Bring the engine to exactly ``ids``: restore what is stored, prefill and store the rest.

        At least the last ``leave`` tokens are evaluated, so that there are logits (0: none needed, a
        suffix follows). ``boundaries`` are token counts at which prefilling stops to store (turn
        starts: models with recurrent state can be cut only there). ``store_all`` stores short tails
        too; with ``only_store`` nothing is done, and the engine left as it is, when all is stored.
        ``media`` are the pictures and sounds of the prompt, whose digests are compared in place of their
        placeholder ids; steps end outside of them, and the engine must know how to feed them. A placeholder
        (``Engine.media_start``) outside of them ends what is stored and matched.
        """
        tokens = as_tokens(ids)
        engine = self.engine
        if tokens.size == 0:
            raise ValueError("an empty prompt")
        if engine.n_ctx is not None and tokens.size > engine.n_ctx:
            raise ValueError(f"a prompt of {tokens.size} tokens, the context holds {engine.n_ctx}")
        items = checked_media(media, int(tokens.size))
        limit, storable = self._limit(tokens, leave, items)
        report = Report(tokens=int(tokens.size))
        call = Call(
            tokens, self._salt(namespace), leave, limit, storable, report, items, boundaries, store_all, only_store
        )
        try:
            call.live = self._hold_resident(call)
            self._from_store(call)
            if only_store and call.known >= storable:
                report.matched = call.known
                return self._done(call)
            if call.live == 0:
                engine.clear()
            elif not report.matched:
                report.resident = call.live
            self._live_media = call.media
            self._feed(call)
            if report.matched and leave and not engine.logits_finite():
                self._start_over(call)
        except BaseException:
            engine.clear()
            raise
        return self._done(call)

    def prefill(self, ids: Sequence[int] | np.ndarray, **where: Any) -> Report:
        """Make sure all of ``ids`` is stored, without generating. Idempotent: what is stored is not fed.

        ``where``: ``namespace``, ``boundaries``, ``media`` as for ``acquire``.
        """
        return self.acquire(ids, leave=0, store_all=True, only_store=True, **where)

    def fetch(
        self,
        ids: Sequence[int] | np.ndarray,
        *,
        more_than: int = 0,
        namespace: str | None = None,
        media: Sequence[Media] = (),
    ) -> Report:
        """Restore the longest stored prefix of ``ids`` into the engine if it is longer than ``more_than``.

        Feeds, stores and claims nothing. ``matched`` 0: the engine holds nothing. All of ``ids`` may be matched.
        """
        call = self._whole(as_tokens(ids), namespace, media)
        call.live = more_than
        self.engine.clear()
        storing, self.store = self.store, False
        try:
            self._from_store(call)
        except BaseException:
            self.engine.clear()
            raise
        finally:
            self.store = storing
        self._live_media = call.media_before(call.report.matched)
        return self._done(call)

    def matched_tokens(
        self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None, media: Sequence[Media] = ()
    ) -> int:
        """How many leading tokens the server holds now (0 when it cannot be asked)."""
        if not self._usable:
            return 0
        try:
            self.identity.declare()
            return self._ask(self._whole(as_tokens(ids), namespace, media))
        except (PionError, Refused):
            return 0

    def peek(self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None) -> int:
        """How many tokens ``acquire`` of the same prompt would match; its look-up is then used, not repeated."""
        if not self._usable or len(ids) < 2:
            return 0
        tokens = as_tokens(ids)
        limit, storable = self._limit(tokens, 1, ())
        salt = self._salt(namespace)
        try:
            self.identity.declare()
            match = self._match(Call(tokens, salt, 1, limit, storable, Report()))
        except (PionError, Refused):
            return 0
        self._peeked = (tokens.tobytes(), salt, time.monotonic(), match)
        return match.matched

    def store_live(self, *, namespace: str | None = None) -> Report:
        """Store what the engine holds now, as it was fed; what is stored already is not sent."""
        live = self.engine.resident()
        held = () if live is None else tuple(item for item in self._live_media if item.position < live.size)
        call = self._whole(as_tokens([] if live is None else live), namespace, held)
        if live is None:
            call.report.why = "nothing in the engine that may be stored"
        elif self._tracks_live and self.identity.now() != self._live_identity:
            call.report.why = "the model's identity changed since these tokens were evaluated"
        else:
            self._store_held(call)
        return self._done(call)

    def store_held(
        self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None, media: Sequence[Media] = ()
    ) -> Report:
        """Store what the engine holds, which must be exactly ``ids``: for engines that do not know their tokens."""
        call = self._whole(as_tokens(ids), namespace, media)
        self._store_held(call)
        return self._done(call)

    def _store_held(self, call: Call) -> None:
        """Rows from where the server's knowledge ends to the end of what the engine holds."""
        report = call.report
        placeholder = self._placeholder(call.tokens, call.media)
        if not self.enabled or not self.store:
            report.why = "switched off"
        elif self.engine.reuse.kind == "none":
            report.why = self.engine.reuse.why
        elif placeholder is not None:
            report.why = f"a picture or a sound stands at token {placeholder}"
        else:
            try:
                self.identity.declare()
                report.matched = self._ask(call)
                if report.matched < call.size:
                    chain = Chain(report)
                    cost = self.break_even.prefill.cost(call.size - report.matched) or None
                    self._export(call, call.size, report.matched, cost, chain)
                    report.why = chain.broken
            except (PionError, Refused) as error:
                report.why = str(error)

    def stored_under(self, namespace: str) -> bool:
        """Does the server hold any chain of this model under this salt? False also when it cannot be asked."""
        if not self._usable:
            return False
        try:
            self.identity.declare()
            return chains_listed(self.client.prompt_list(self.model, salt=namespace, count=1)) > 0
        except (PionError, Refused):
            return False

    def connect(self) -> bool:
        """Connect and declare the model now, not at the first prompt. False (and one warning) when that fails."""
        if not self._usable:
            return False
        try:
            self.client.warm()
            self.identity.declare()
            return True
        except (PionError, Refused) as error:
            log.info("pion: %s", error)  # no answer was warned of by the breaker; the first call says the rest
            return False

    def model_changed(self) -> None:
        """Weights or adapters were changed in place: nothing stored before is matched any more."""
        if self.engine.reuse.kind == "none":
            return
        self.identity.renew()
        self.engine.clear()
        self._live_identity = self.identity.now() if self._tracks_live else ""

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until all that was prefilled is stored; False when that took too long."""
        return self.storer.flush(timeout_s)

    def close(self) -> None:
        """Flush and close both connections."""
        self.storer.close()
        self.client.close()

    def _done(self, call: Call) -> Report:
        call.report.total_ms = (time.perf_counter() - call.began) * 1000
        self.last = call.report
        return call.report

    def _salt(self, namespace: str | None) -> str:
        return self.namespace if namespace is None else namespace

    def _whole(self, ids: np.ndarray, namespace: str | None, media: Sequence[Media]) -> Call:
        """A call about exactly ``ids``: no logits wanted, nothing held back."""
        size = int(ids.size)
        items = checked_media(media, size)
        placeholder = self._placeholder(ids, items)
        limit = size if placeholder is None else placeholder
        return Call(ids, self._salt(namespace), 0, limit, limit, Report(tokens=size), items)

    def _placeholder(self, tokens: np.ndarray, media: tuple[Media, ...]) -> int | None:
        """First placeholder of a picture or a sound whose digest was not given."""
        at = 0
        for start, stop in (*((item.position, item.position + item.length) for item in media), (tokens.size, 0)):
            found = self.engine.media_start(tokens[at:start]) if at < start else None
            if found is not None:
                return at + found
            at = stop
        return None

    def _limit(self, tokens: np.ndarray, leave: int, media: tuple[Media, ...]) -> tuple[int, int]:
        """(most tokens to match, tokens that may be stored): room for the answer, and bare placeholders, are left out."""
        leave = max(leave, self.replay) if leave else 0
        n_ctx = self.engine.n_ctx
        most = tokens.size - leave
        if n_ctx is not None:
            most = min(most, n_ctx - (self.room if leave else 0))
        placeholder = self._placeholder(tokens, media)
        storable = int(tokens.size) if placeholder is None else placeholder
        return max(0, min(int(most), storable)), storable

    def _hold_resident(self, call: Call) -> int:
        """Cut the engine to the leading tokens it shares with the prompt; how many, 0 when it cannot be exact.

        Only what the very same model evaluated counts. For ``only_store`` a live state is used whole or not.
        """
        if not self._tracks_live:
            return 0
        identity = self.identity.now()
        same, self._live_identity = identity == self._live_identity, identity
        live = self.engine.resident() if same else None
        if live is None or live.size == 0 or call.limit <= 0:
            return 0
        held = common_prefix(live, call.tokens[: call.limit])
        # Where one of the two has a picture that the other has not, equal ids mean nothing.
        held = min([held, *(item.position for item in set(self._live_media) ^ set(call.media))])
        held = call.outside_media(held)
        if held == 0 or held < live.size and call.only_store:
            return 0
        return held if self.engine.keep_resident(held) else 0

    def _start_over(self, call: Call) -> None:
        """A restored state gave logits that are no numbers: heal the context and prefill."""
        self._warn("nan", "pion: a restored state gave non-finite logits; cleared and prefilled anew")
        report = call.report
        report.why = "the stored state is not finite"
        report.matched = report.fed = 0
        report.steps.clear()
        self.engine.clear()
        call.live, call.known = 0, UNKNOWN
        self._feed(call)

    # -- looking up and restoring ------------------------------------------------------------

    def _ask(self, call: Call) -> int:
        """Tokens stored, without a lease."""
        name, digest = self.identity.name, self.identity.hash
        return self.client.match(
            name, call.tokens, salt=call.salt, lease_ms=0, manifest_hash=digest, media=call.media
        ).matched

    def _from_store(self, call: Call) -> None:
        """Find out what the server holds (``call.known``), and restore it when that is worth while."""
        report = call.report
        if not self.enabled:
            report.why = "switched off"
        elif self.engine.reuse.kind == "none":
            report.why = self.engine.reuse.why
        elif call.only_store:
            self._guarded(call)
        elif not self.break_even.pays(call.limit, call.limit - call.live):
            report.why = f"{call.limit} tokens are too few to pay for fetching them"
        elif call.limit - call.live >= (self.min_store if call.live else 1):
            self._guarded(call)

    def _guarded(self, call: Call) -> None:
        """``_look_up``; whatever the store does wrong ends here, with a reason and at most one warning of a kind."""
        report = call.report
        try:
            self._look_up(call)
            return
        except Mismatch as error:
            report.mismatch = error.fields
            report.why = str(error)
            self._warn(f"mismatch {error.fields}", "pion: nothing is reused: %s", error)
        except ReplyError as error:
            report.why = str(error)
            self._warn(error.code, "pion: going on without the store: %s", error)
        except Refused as error:
            report.why = str(error)
            self._warn("identity", "pion: nothing is reused: %s", error)
        except PionError as error:
            report.why = str(error)
        call.known = UNKNOWN

    def _look_up(self, call: Call) -> None:
        self.identity.declare()
        match = (self._take_peeked(call) if call.leave else None) or self._match(call)
        if self.store and not self.second_sight and call.storable - match.matched >= self._least(call):
            match = self._claim(call, match)
        call.known = match.matched
        self._explain(call, match)
        if match.matched <= call.live or call.only_store and match.matched >= call.storable:
            self._release(match)
        elif not self.break_even.pays(match.matched, match.matched - call.live):
            self._release(match)
            call.report.why = f"{match.matched} stored tokens are too few to pay for fetching them"
        else:
            call.live = 0  # whatever comes now, what the engine held is no longer there
            call.live = self._restore(call, match, retry=True)

    def _least(self, call: Call) -> int:
        """Fewest tokens worth a PUT."""
        return 1 if call.store_all else self.min_store

    def _match(self, call: Call, most: int | None = None) -> Match:
        began = time.perf_counter()
        if most is None:
            most = call.storable if call.only_store else call.limit
        for attempt in (0, 1):
            try:
                match = self.client.match(
                    self.identity.name,
                    call.tokens,
                    salt=call.salt,
                    most=most,
                    lease_ms=self.lease_ms,
                    manifest_hash=self.identity.hash,
                    media=call.media,
                )
                break
            except NoModel:  # revoked, or the server lost its directory: the name starts empty
                if attempt:
                    raise
                self.identity.forget()
                self.identity.declare()
        call.report.match_ms += (time.perf_counter() - began) * 1000
        return match

    def _take_peeked(self, call: Call) -> Match | None:
        """The match of a ``peek`` just before, if it was for this prompt and its lease has time left."""
        peeked, self._peeked = self._peeked, None
        if peeked is None:
            return None
        tokens, salt, when, match = peeked
        if not call.media and tokens == call.tokens.tobytes() and salt == call.salt and (time.monotonic() - when) * 2000 < self.lease_ms:
            return match
        self._release(match)
        return None

    def _claim(self, call: Call, match: Match) -> Match:
        """Claim what is missing, or wait while another process prefills it; the match afterwards.

        The claim is for exactly the tokens that will be stored, so that the last PUT fulfils it, and
        it belongs to the connection that stores.
        """
        goal = self._goal(call, match.matched)
        best = match.matched
        claim_ms = max(self.claim_ms, int(4 * self.break_even.prefill.cost(self.step)))
        began = progress = time.perf_counter()
        while goal - best >= self._least(call):
            answer = self.storer.client.match(
                self.identity.name,
                call.tokens[:goal],
                salt=call.salt,
                lease_ms=0,
                manifest_hash=self.identity.hash,
                claim_ms=claim_ms,
                wait_ms=min(_WAIT_SLICE_MS, self.wait_ms),
                media=call.media_before(goal),
            )
            now = time.perf_counter()
            if answer.matched > best:
                best, progress = answer.matched, now
            call.report.claimed = answer.claimed
            if answer.claimed or (now - progress) * 1000 >= self.wait_ms:
                break
        call.report.wait_ms += (time.perf_counter() - began) * 1000
        if best <= match.matched:
            return match
        self._release(match)
        return self._match(call)

    def _goal(self, call: Call, known: int) -> int:
        """Where storing of this prompt will end: its end, or the last full step before a short tail."""
        tail = (call.storable - known) % self.step
        return call.storable if call.store_all or tail >= self.min_store else call.outside_media(call.storable - tail, known)

    def _release(self, match: Match) -> None:
        if match.lease is not None:
            self.client.release(match.lease)

    def _restore(self, call: Call, match: Match, *, retry: bool) -> int:
        """Tokens restored; 0 (engine cleared) when that failed."""
        if match.lease is None or match.matched == 0:
            return 0
        report = call.report
        began = time.perf_counter()
        try:
            wants = self.engine.begin_restore(match.matched)
            fetch = self.client.read_into(match.lease, wants)
            self.engine.finish_restore(call.tokens[: match.matched])
        except Corrupt as error:
            self.engine.clear()
            report.why = str(error)
            if not retry:
                return 0
            # The server has dropped the damaged segment: what is left is shorter but whole.
            again = self._match(call, match.matched)
            call.known = again.matched
            return self._restore(call, again, retry=False)
        except (PionError, Refused) as error:
            self.engine.clear()
            report.why = f"restore failed: {error}"
            self._warn("restore " + type(error).__name__, "pion: %s; cleared, prefilling", report.why)
            return 0
        report.restore_ms = (time.perf_counter() - began) * 1000
        report.matched, report.bytes_read, report.lane = match.matched, fetch.bytes, fetch.lane
        self.break_even.fetch.add(match.matched, report.restore_ms + report.match_ms)
        return match.matched

    def _explain(self, call: Call, match: Match) -> None:
        """Say why not more was matched, and where the prompt parts from what is stored."""
        report, tokens, fork = call.report, call.tokens, match.fork
        if match.matched >= call.limit:
            return
        if fork is not None and fork[0] < tokens.size and int(tokens[fork[0]]) != fork[1]:
            asked = int(tokens[fork[0]])
            text = self.engine.text
            report.fork = Fork(fork[0], fork[1], asked, text(fork[1]), text(asked))
            report.why = f"the prompt parts from what is stored at {report.fork}"
            if said := self._forks.see(report.fork, call.size):
                self._warn("forks", "pion: %s", said)
        elif match.matched == 0:
            report.why = "nothing stored begins like this prompt"
            if self.siblings:
                name, fields = next(iter(self.siblings.items()))
                report.mismatch = fields
                report.why += f" ({name} differs in {', '.join(fields)})"
        else:
            report.why = f"stored up to token {match.matched}"

    # -- prefilling and storing --------------------------------------------------------------

    def _feed(self, call: Call) -> None:
        """Feed what is missing in steps, and store rows [known, ...) of it step by step."""
        report, tokens, size = call.report, call.tokens, call.size
        chain = Chain(report)
        at, unstored = call.live, call.known
        storing = self.store and call.known != UNKNOWN and call.known < call.storable
        ends = list(call.steps(self.step))
        goal = self._seen_goal(call, ends) if storing else 0
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
            short_tail = stop == size and stop - unstored < self._least(call)
            if storing and unstored < stop <= goal and not short_tail and not chain.broken:
                self._export(call, stop, unstored, since, chain)
                unstored, since = stop, 0.0

    def _export(self, call: Call, stop: int, start: int, ms: float | None, chain: Chain) -> None:
        """Take rows [start, stop) out of the engine and hand them to the storer."""
        try:
            blobs = self.engine.export(start, stop)
        except Refused as error:
            chain.broken = str(error)
            self._warn("refused", "pion: this state is not stored: %s", error)
            return
        tokens, media = call.tokens[:stop].copy(), call.media_before(stop)
        name, digest = self.identity.name, self.identity.hash
        self.storer.put(Piece(chain, name, digest, call.salt, tokens, media, start, self.engine.pools, blobs, ms))

    def _seen_goal(self, call: Call, ends: Sequence[int]) -> int:
        """Up to where to store: everything storable, or with ``second_sight`` what was asked before."""
        if not self.second_sight:
            return call.storable
        goal = call.known
        try:
            for stop in ends:
                if call.known < stop <= call.storable:
                    if not self.client.first_sight(call.seen_key(self.identity.name, stop)):
                        goal = stop
        except PionError:
            return call.known
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


def chains_listed(reply: Any) -> int:
    """Number of chains in a reply of PROMPT.LIST (``[cursor, chains]``, or the chains alone)."""
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list):
        reply = reply[1]
    return len(reply)
