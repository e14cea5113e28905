"""``mlx_lm.server`` with prompt memory that outlives it:  ``python -m pion.mlx_server --model ... [server options]``

Takes every option of ``mlx_lm.server``. Where Pion is comes from the environment: ``PION_HOST``, ``PION_PORT``,
``PION_PASSWORD``, ``PION_NAMESPACE`` (a salt). Without a server it behaves as ``mlx_lm.server`` does.
"""

from __future__ import annotations

import os
from typing import Any

from mlx_lm import server

from .client import DEFAULT_PORT
from .mlx_hook import PionLRUPromptCache


def install(**options: Any) -> None:
    """Make ``mlx_lm.server`` use :class:`PionLRUPromptCache` from now on. ``options``: of :class:`PionPromptCache`.

    Raises RuntimeError when this release's server is built in another way.
    """
    missing = [name for name in ("LRUPromptCache", "ResponseGenerator", "ModelProvider") if not hasattr(server, name)]
    if missing:
        raise RuntimeError(f"the mlx_lm.server of this release has no {', '.join(missing)}; 0.32 has")

    class Hook(PionLRUPromptCache):
        def __init__(self, max_size: int = 10, max_bytes: int = 1 << 63) -> None:
            super().__init__(max_size, max_bytes, **options)

        def bind(self, provider: Any) -> None:
            """Learn which model a key means, and how the server quantises its caches."""
            args = provider.cli_args
            if getattr(args, "kv_bits", None) is not None:
                self._options = {
                    **options,
                    "kv_bits": args.kv_bits,
                    "kv_group_size": args.kv_group_size,
                    "quantized_kv_start": args.quantized_kv_start,
                }

            def model_of(key: Any) -> tuple[Any, Any] | None:
                # The rows of a draft model are no part of the model's: with one, caches stay in this process.
                if provider.model is None or provider.model_key != key or provider.draft_model is not None:
                    return None
                return provider.model, provider.tokenizer

            self.model_of = model_of
            reset = provider.reset

            def reset_and_forget() -> None:
                self.forget_models()
                reset()

            provider.reset = reset_and_forget

    original = server.ResponseGenerator.__init__

    def init(self: Any, model_provider: Any, prompt_cache: Any) -> None:
        if isinstance(prompt_cache, Hook):
            prompt_cache.bind(model_provider)
        original(self, model_provider, prompt_cache)

    server.LRUPromptCache = Hook
    server.ResponseGenerator.__init__ = init


def main() -> None:
    install(
        host=os.environ.get("PION_HOST", "127.0.0.1"),
        port=int(os.environ.get("PION_PORT", DEFAULT_PORT)),
        password=os.environ.get("PION_PASSWORD"),
        namespace=os.environ.get("PION_NAMESPACE", ""),
    )
    server.main()


if __name__ == "__main__":
    main()
