"""Places: through kills, against plain trigonometry, in transactions, and large searches beside other connections."""

from __future__ import annotations

import math
import random
import threading

import pytest

from support.resp import Connection
from support.servers import PionServer

pytestmark = pytest.mark.wire

Point = tuple[float, float]


def distance_m(a: Point, b: Point) -> float:
    (lon1, lat1), (lon2, lat2) = ([math.radians(x) for x in point] for point in (a, b))
    half = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6372797.560856 * math.asin(math.sqrt(half))


def places(count: int, seed: int) -> dict[bytes, Point]:
    r = random.Random(seed)
    return {b"p%d" % i: (r.uniform(-170, 170), r.uniform(-60, 60)) for i in range(count)}


def fill(c: Connection, key: str, points: dict[bytes, Point]) -> None:
    words = [word for member, (longitude, latitude) in points.items() for word in (longitude, latitude, member)]
    for at in range(0, len(words), 3000):
        c.call("GEOADD", key, *words[at : at + 3000])


@pytest.mark.parametrize("checkpoint", [False, True], ids=["from the journal", "from a checkpoint"])
def test_places_come_back_after_a_kill(pion: PionServer, checkpoint: bool) -> None:
    points = places(400, 1)
    members = list(points)
    questions = [
        ("GEOPOS", "geo", *members[:50]),
        ("ZRANGE", "stored", 0, -1, "WITHSCORES"),
        ("ZRANGE", "distances", 0, -1, "WITHSCORES"),
        ("ZRANGE", "radius", 0, -1, "WITHSCORES"),
        ("GEOHASH", "geo", *members[:50]),
    ]
    with Connection(pion.port) as c:
        fill(c, "geo", points)
        assert c.call("GEOADD", "geo", "XX", "CH", 1.5, 2.5, members[0], 3, 4, "absent") == 1
        assert c.call("GEOSEARCHSTORE", "stored", "geo", "FROMLONLAT", 0, 0, "BYBOX", 9000, 9000, "km") > 10
        assert c.call("GEOSEARCHSTORE", "distances", "geo", "FROMMEMBER", members[3], "BYRADIUS", 5000, "km", "COUNT", 7, "STOREDIST") == 7
        assert c.call("GEORADIUS", "geo", 10, 10, 4000, "mi", "STORE", "radius") > 10
        c.call("SET", "gone", 1)
        assert c.call("GEOSEARCHSTORE", "gone", "geo", "FROMLONLAT", 0, 85, "BYRADIUS", 1, "m") == 0
        if checkpoint:
            assert c.call("SAVE") == "OK"
        before = [c.call(*question) for question in questions]
    pion.restart()
    with Connection(pion.port) as c:
        assert [c.call(*question) for question in questions] == before
        assert c.call("EXISTS", "gone") == 0


def test_searches_find_what_trigonometry_finds(pion: PionServer) -> None:
    points, r = places(6000, 2), random.Random(3)
    with Connection(pion.port) as c:
        fill(c, "geo", points)
        for _ in range(60):
            center = (r.uniform(-140, 140), r.uniform(-45, 45))
            radius = 10 ** r.uniform(4.5, 6.4)
            found = c.call("GEOSEARCH", "geo", "FROMLONLAT", *center, "BYRADIUS", radius, "m", "WITHDIST", "ASC")
            distances = [float(distance) for _, distance in found]
            assert distances == sorted(distances)
            # A place is stored to within a metre.
            inside = {member for member, point in points.items() if distance_m(center, point) < radius - 2}
            near = {member for member, point in points.items() if distance_m(center, point) < radius + 2}
            assert inside <= {member for member, _ in found} <= near
            nearest = c.call("GEOSEARCH", "geo", "FROMLONLAT", *center, "BYRADIUS", radius, "m", "COUNT", 5)
            assert nearest == [member for member, _ in found[:5]]


def test_a_large_search_stops_nobody(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        fill(c, "geo", places(30_000, 4))
        done = threading.Event()
        answers: list[object] = []

        def ask() -> None:
            while not done.is_set():
                answers.append(other.call("INCR", "n"))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(5):
                assert len(c.call("GEOSEARCH", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 30_000, "km", "WITHDIST", "DESC")) == 30_000
                assert c.call("GEORADIUS", "geo", 0, 0, 30_000, "km", "STOREDIST", "far") == 30_000
        finally:
            done.set()
            asking.join()
        assert answers == list(range(1, len(answers) + 1)) and len(answers) > 50


def test_the_last_store_is_meant_in_a_transaction_too(pion: PionServer) -> None:
    # Its key is none that the specification of the command finds; it is locked all the same.
    with Connection(pion.port) as c:
        c.call("GEOADD", "geo", 1, 1, "a", 2, 2, "b")
        for i in range(40):
            c.call("MULTI")
            c.call("GEORADIUS", "geo", 1, 1, 500, "km", "STORE", f"first{i}", "STORE", f"last{i}")
            c.call("ZCARD", f"last{i}")
            assert c.call("EXEC") == [2, 2]
            assert c.call("EXISTS", f"first{i}", f"last{i}") == 1


def test_errors_and_shapes(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port, protocol=3) as three:
        c.call("GEOADD", "geo", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")
        c.send_many([
            ("GEOADD", "geo", 181, 0, "x"), ("GEOADD", "geo", "NX", "XX", 1, 1, "x"), ("GEODIST", "geo", "Palermo", "Catania", "parsec"),
            ("GEOSEARCH", "geo", "FROMMEMBER", "nobody", "BYRADIUS", 1, "km"), ("GEOSEARCH", "geo", "FROMLONLAT", 1, 2, "ASC", "DESC", "ASC"),
            ("GEOSEARCHSTORE", "d", "geo", "FROMLONLAT", 1, 2, "BYRADIUS", 1, "km", "WITHDIST"), ("GEORADIUS_RO", "geo", 1, 2, 3, "km", "STORE", "d"),
        ])  # fmt: skip
        assert [str(c.read()) for _ in range(7)] == [
            "ERR invalid longitude,latitude pair 181.000000,0.000000", "ERR syntax error",
            "ERR unsupported unit provided. please use M, KM, FT, MI", "ERR could not decode requested zset member",
            "ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH",
            "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options", "ERR syntax error",
        ]  # fmt: skip
        assert c.call("GEODIST", "geo", "Palermo", "Catania", "KM") == b"166.2742"
        assert c.call("GEOPOS", "geo", "Palermo", "nobody") == [[b"13.361389338970184", b"38.1155563954963"], None]
        assert three.call("GEOPOS", "geo", "Palermo", "nobody") == [[13.361389338970184, 38.1155563954963], None]
        assert c.call("GEOHASH", "geo", "Palermo", "nobody") == [b"sqc8b49rny0", None]
        found = three.call("GEORADIUSBYMEMBER", "geo", "Palermo", 10, "km", "WITHDIST", "WITHHASH", "WITHCOORD")
        assert found == [[b"Palermo", b"0.0000", 3479099956230698, [13.361389338970184, 38.1155563954963]]]
