"""Time to the first token, measured the same way for every engine and every source of the prefix.

``engines`` knows llama.cpp and mlx-lm, ``worker`` runs an engine in a process of its own, ``study`` takes the
measurements, ``text`` makes the prompt, ``picture`` draws. The demo and the benchmarks are thin on top.
"""
