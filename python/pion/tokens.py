"""Where a prompt may be parted so that prefix and suffix encode as the whole does."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def seam(encode: Callable[[str], Sequence[int]], prefix: str, suffix: str) -> tuple[list[int], list[int]]:
    """Token ids of ``prefix + suffix``, parted at the last place where the prefix alone encodes alike.

    Encoding the two apart can give other ids than encoding them together (a word parted in the
    middle, a blank at the seam): then the stored prefix would not be what the whole prompt begins
    with. ``encode`` must give the ids that will be fed, special tokens included.
    """
    whole = list(encode(prefix + suffix))
    alone = list(encode(prefix))
    at = 0
    while at < min(len(whole), len(alone)) and whole[at] == alone[at]:
        at += 1
    return whole[:at], whole[at:]
