"""Payloads of DUMP built by hand: in the encodings of old versions, in encodings that sizes would not choose, and wrong ones."""

from __future__ import annotations

import struct

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = (_byte >> 1) ^ (0x95AC9329AC4BC9B5 if _byte & 1 else 0)
    _TABLE.append(_byte)

Item = bytes | str | int


def crc64(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc


def seal(body: bytes, version: int = 12) -> bytes:
    """Type and body with the version and the right checksum behind them."""
    summed = body + struct.pack("<H", version)
    return summed + struct.pack("<Q", crc64(summed))


def unseal(payload: bytes) -> bytes:
    assert struct.unpack("<Q", payload[-8:])[0] == crc64(payload[:-8])
    assert payload[-10:-8] == b"\x0c\x00"
    return payload[:-10]


def length(n: int) -> bytes:
    if n < 64:
        return bytes([n])
    if n < 16384:
        return bytes([0x40 | n >> 8, n & 255])
    return b"\x80" + struct.pack(">I", n) if n < 2**32 else b"\x81" + struct.pack(">Q", n)


def string(text: bytes | str) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return length(len(raw)) + raw


def double(value: float) -> bytes:
    return struct.pack("<d", value)


def _back(size: int) -> bytes:
    digits = [size & 127]
    while size >= 128:
        size >>= 7
        digits.append(size & 127)
    digits.reverse()
    return bytes([digits[0]] + [digit | 128 for digit in digits[1:]])


def _listpack_item(item: Item) -> bytes:
    if isinstance(item, int):
        if 0 <= item < 128:
            head = bytes([item])
        elif -4096 <= item < 4096:
            head = bytes([0xC0 | (item & 0x1FFF) >> 8, item & 255])
        elif -(2**15) <= item < 2**15:
            head = b"\xf1" + struct.pack("<h", item)
        elif -(2**23) <= item < 2**23:
            head = b"\xf2" + struct.pack("<i", item)[:3]
        elif -(2**31) <= item < 2**31:
            head = b"\xf3" + struct.pack("<i", item)
        else:
            head = b"\xf4" + struct.pack("<q", item)
    else:
        raw = item.encode() if isinstance(item, str) else item
        if len(raw) < 64:
            head = bytes([0x80 | len(raw)]) + raw
        elif len(raw) < 4096:
            head = bytes([0xE0 | len(raw) >> 8, len(raw) & 255]) + raw
        else:
            head = b"\xf0" + struct.pack("<I", len(raw)) + raw
    return head + _back(len(head))


def listpack(items: list[Item]) -> bytes:
    body = b"".join(map(_listpack_item, items))
    return struct.pack("<IH", len(body) + 7, min(len(items), 65535)) + body + b"\xff"


def _ziplist_body(item: Item) -> bytes:
    if isinstance(item, int):
        if 0 <= item <= 12:
            return bytes([0xF1 + item])
        for head, form in ((0xFE, "<b"), (0xC0, "<h"), (0xF0, ""), (0xD0, "<i"), (0xE0, "<q")):
            try:
                packed = struct.pack(form, item) if form else struct.pack("<i", item << 8)[1:]
            except struct.error:
                continue
            return bytes([head]) + packed
    raw = item.encode() if isinstance(item, str) else item
    if len(raw) < 64:
        return bytes([len(raw)]) + raw
    if len(raw) < 16384:
        return struct.pack(">H", 0x4000 | len(raw)) + raw
    return b"\x80" + struct.pack(">I", len(raw)) + raw


def ziplist(items: list[Item]) -> bytes:
    body, before, last_at = b"", 0, 10
    for item in items:
        element = (bytes([before]) if before < 254 else b"\xfe" + struct.pack("<I", before)) + _ziplist_body(item)
        last_at = 10 + len(body)
        body += element
        before = len(element)
    return struct.pack("<IIH", len(body) + 11, last_at, min(len(items), 65535)) + body + b"\xff"


def zipmap(pairs: list[tuple[bytes, bytes]], spare: int = 0) -> bytes:
    def size(raw: bytes) -> bytes:
        return bytes([len(raw)]) if len(raw) < 254 else b"\xfe" + struct.pack("<I", len(raw))

    body = b"".join(size(k) + k + size(v) + bytes([spare]) + v + b"?" * spare for k, v in pairs)
    return bytes([min(len(pairs), 254)]) + body + b"\xff"


def intset(width: int, numbers: list[int]) -> bytes:
    form = {2: "h", 4: "i", 8: "q"}[width]
    return struct.pack("<II", width, len(numbers)) + b"".join(struct.pack("<" + form, number) for number in numbers)


StreamId = tuple[int, int]


def stream_id(at: StreamId) -> bytes:
    return struct.pack(">QQ", *at)


def stream_node(base: StreamId, names: list[bytes], entries: list[Item], count: int, removed: int = 0) -> bytes:
    """`entries`: the elements behind the names, as they are."""
    return string(stream_id(base)) + string(listpack([count, removed, len(names), *names, 0, *entries]))
