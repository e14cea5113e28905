"""Prompt cache for mlx-lm on a Pion server. See :class:`PionPromptCache`; all of the work is in ``pion.mlx``."""

from pion.mlx import split_prompt, turn_starts

from .prompt_cache import PionPromptCache

__all__ = ["PionPromptCache", "split_prompt", "turn_starts"]
__version__ = "0.2.0"
