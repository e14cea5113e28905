"""What the server is told a model is: its manifest, its name on the wire, and who is like it there."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

from .client import Client
from .engine import Engine
from .errors import Refused

_SIBLINGS = 8


class Identity:
    """Declares an engine's model to the server, anew whenever its manifest has changed.

    ``name`` is the name on the wire: the one given, or the engine's short name with a digest of the
    manifest, so that every variant has a place of its own. ``hash`` is the server's name for the manifest.
    ``siblings`` are variants under the same short name, with the fields in which they differ.
    """

    def __init__(self, engine: Engine, client: Client, fixed_name: str | None) -> None:
        self.name = ""
        self.hash: str | None = None
        self.siblings: dict[str, list[str]] = {}
        self._engine, self._client, self._fixed = engine, client, fixed_name
        self._generation: str | None = None
        self._declared: str | None = None
        self._last: tuple[dict[str, Any], str] = ({}, "{}")

    def manifest(self, *, reread: bool = False) -> dict[str, Any]:
        """The engine's manifest as it is now, with our generation if there is one."""
        manifest = dict(self._engine.manifest(reread=reread))
        if self._generation:
            manifest["generation"] = self._generation
        return manifest

    def now(self) -> str:
        """The identity in one canonical form; "" when the engine has none that can be named."""
        try:
            return self._form(self.manifest())
        except Refused:
            return ""

    def _form(self, manifest: dict[str, Any]) -> str:
        """``canonical``, remembered: most manifests are the last one again."""
        if manifest != self._last[0]:
            self._last = (manifest, canonical(manifest))
        return self._last[1]

    def declare(self) -> None:
        """Make sure the server knows the model. Mismatch when the (fixed) name stands for another one."""
        manifest = self.manifest()
        form = self._form(manifest)
        if form == self._declared:
            return
        self._declared = None
        name = self._fixed or f"{self._engine.model_name}@{hashlib.sha256(form.encode()).hexdigest()[:12]}"
        self._client.model_set(name, manifest)
        self.hash = self._client.model_get(name).get("hash")
        self.name, self._declared = name, form
        if self._fixed is None:
            self.siblings = self._find_siblings(json.loads(form))

    def forget(self) -> None:
        """Declare again at the next call: the server no longer knows the name."""
        self._declared = None

    def renew(self) -> None:
        """The model was changed in place. If its manifest does not show it, a generation of its own does."""
        before = self.manifest()
        if self.manifest(reread=True) == before:
            self._generation = uuid.uuid4().hex
        self._declared = None

    def _find_siblings(self, identity: dict[str, Any]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        head = self._engine.model_name + "@"
        for name in self._client.model_list():
            if name.startswith(head) and name != self.name and len(found) < _SIBLINGS:
                other = self._client.model_get(name).get("json")
                if isinstance(other, dict):
                    found[name] = list(differing_fields(identity, other))
        return found


def canonical(manifest: dict[str, Any]) -> str:
    """A manifest without its notes, in one form."""
    identity = {key: value for key, value in manifest.items() if key != "notes"}
    return json.dumps(identity, sort_keys=True, separators=(",", ":"))


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
