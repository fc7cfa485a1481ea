"""Deletes as Hudi 0.13 and older wrote them, in bytes of Hudi's own `SerializationUtils.serialize`.

Hudi 1.2.0's made them, of HoodieKey[] and DeleteRecord[]: both classes, and what serialises them, may not change, so
that such blocks can be read for good (HUDI-5760).
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, Unsupported
from lakeward.format.log.kryo_deletes import BadDeletes, read_kryo_deletes
from tests.format.log.test_delete_block import read

BYTES = {
    "v1": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2V5uwEGAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1vZGVs"
        "Lkhvb2RpZUtl+QEBgnABa7EBAQEBgnABhGsyw6QBAQEBgnABgmsBAQEBYS9iPeMBhO2gve24gMOpAQEBAYEQ"
    ),
    "v1none": base64.b64decode("AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2V5uwEB"),
    "v1same": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2V5uwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1vZGVs"
        "Lkhvb2RpZUtl+QEBgnABc2Ft5QEBAwEBAQGCcAFzYW3l"
    ),
    "v2int": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEGAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsQIAAQEBAQIBAYJw"
        "AYRrMsOkAgABAQEBAgEBgnABgmsCAAEBAQECAQFhL2I94wGE7aC97biAw6kCAAEBAQECAQGBFQIA"
    ),
    "v2Integer": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEHAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAIDAQEBAQIBAYJw"
        "AWuxAgEBAQEBAgEBgnABa7ICAAEBAQECAQGCcAFrswICAQEBAQIBAYJwAWu0AgQBAQEBAgEBgnABa7UCBg=="
    ),
    "v2Long": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEHAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAkDAQEBAQIBAYJw"
        "AWuxCQEBAQEBAgEBgnABa7IJAAEBAQECAQGCcAFrswkCAQEBAQIBAYJwAWu0CQQBAQEBAgEBgnABa7UJBg=="
    ),
    "v2Float": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAQ/wAAA"
    ),
    "v2Double": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEHAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsArAAAAAAAAAAAEB"
        "AQECAQGCcAFrsQq/8AAAAAAAAAEBAQECAQGCcAFrsgoAAAAAAAAAAAEBAQECAQGCcAFrswo/8AAAAAAAAAEBAQECAQGCcAFrtApA"
        "AAAAAAAAAAEBAQECAQGCcAFrtQpACAAAAAAAAA=="
    ),
    "v2Boolean": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAUBAQEBAQIBAYJw"
        "AWuxBQA="
    ),
    "v2String": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAMBgngBAQEBAgEB"
        "gnABa7EDAWxvbmcgdGV49AEBAQECAQGCcAFrsgMBgsOp"
    ),
    "v2Same": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEEAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAMBc2hhcmVkIHRl"
        "ePQBAQEBAgEBgnABa7EDBwEBAQECAQGCcAFrsgMH"
    ),
    "v2Decimal": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwEDAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAEDamF2YS5tYXRo"
        "LkJpZ0RlY2ltYewBAwTSBAEBAQECAQGCcAFrsQEDAQL7AA=="
    ),
    "v2Null": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAA="
    ),
    "v2Ts": base64.b64decode(
        "AQBbTG9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuRGVsZXRlUmVjb3JkuwECAQFvcmcuYXBhY2hlLmh1ZGkuY29tbW9uLm1v"
        "ZGVsLkRlbGV0ZVJlY29y5AEBAm9yZy5hcGFjaGUuaHVkaS5jb21tb24ubW9kZWwuSG9vZGllS2X5AQGCcAFrsAEDamF2YS5zcWwu"
        "VGltZXN0YW3wAQU="
    ),
}

KEYS = ["k1", "k2ä", "k", "😀é", ""]


def content(name: str, version: int) -> bytes:
    return struct.pack(">ii", version, len(BYTES[name])) + BYTES[name]


@pytest.mark.parametrize(
    ("name", "version", "keys"),
    [("v1", 1, KEYS), ("v1none", 1, []), ("v1same", 1, ["same"] * 3), ("v2int", 2, KEYS), ("v2Null", 2, ["k0"])],
)
def test_deletes_without_ordering_values(name: str, version: int, keys: list[str]) -> None:
    """Version 1 has none, and in version 2 the Integer 0 and null are none; a key that is there twice comes twice."""
    deleted = read(content(name, version))

    assert deleted.keys.to_pylist() == keys
    assert deleted.is_default.tolist() == [True] * len(keys)
    assert (deleted.ordering, deleted.wrappers) == (None, ())


@pytest.mark.parametrize(
    ("name", "wrapper", "values"),
    [
        ("v2Integer", "IntWrapper", [-2, -1, None, 1, 2, 3]),
        ("v2Long", "LongWrapper", [-2, -1, 0, 1, 2, 3]),
        ("v2Float", "FloatWrapper", [1.5]),
        ("v2Double", "DoubleWrapper", [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]),
        ("v2Boolean", "BooleanWrapper", [True, False]),
        ("v2String", "StringWrapper", ["x", "long text", "é"]),
        ("v2Same", "StringWrapper", ["shared text"] * 3),
        ("v2Decimal", "DecimalWrapper", [Decimal("12.34"), Decimal(-5)]),
    ],
)
def test_ordering_values(name: str, wrapper: str, values: list[Any]) -> None:
    """Each class of Java is the wrapper that version 3 has for it, with the same values; the Integer 0 is none."""
    deleted = read(content(name, 2))

    assert deleted.keys.to_pylist() == [f"k{number}" for number in range(len(values))]
    assert deleted.wrappers == (wrapper,)
    assert deleted.ordering is not None and deleted.ordering.to_pylist() == values
    assert deleted.is_default.tolist() == [value is None for value in values]


def test_numbers_to_their_ends() -> None:
    """Numbers go zigzag, the ninth byte of a long has eight bits, and what an Integer cannot hold is broken."""
    head = BYTES["v2Null"][:-1]
    for number in (2**63 - 1, -(2**63), 12345678901):
        zigzag = (number << 1 ^ number >> 63) & (2**64 - 1)
        digits = bytearray()
        while zigzag > 0x7F and len(digits) < 8:
            digits.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        (found,) = read_kryo_deletes(head + bytes([9, *digits, zigzag]), 2)
        assert (found.ordering, found.ordering_class) == (number, "Long")
        with pytest.raises(BadDeletes, match="32 bits"):
            read_kryo_deletes(head + bytes([2, *digits, zigzag]), 2)


def test_what_else_is_refused() -> None:
    """Other classes of ordering values are refused by name, arrays of something else and other versions too."""
    with pytest.raises(Unsupported, match=r"java\.sql\.Timestamp"):
        read(content("v2Ts", 2))
    with pytest.raises(BrokenFile, match="no array of"):
        read(content("v1", 2))
    with pytest.raises(BrokenFile, match="no array of"):
        read(content("v2int", 1))


@pytest.mark.parametrize("name", ["v1", "v1same", "v2int", "v2Same", "v2Decimal"])
def test_what_is_cut_or_goes_on_is_broken(name: str) -> None:
    """Never is it a shorter list of deletes."""
    version = int(name[1])
    for length in range(len(BYTES[name])):
        with pytest.raises(BadDeletes):
            read_kryo_deletes(BYTES[name][:length], version)
    with pytest.raises(BadDeletes, match="left over"):
        read_kryo_deletes(BYTES[name] + b"\0", version)


@pytest.mark.parametrize("name", ["v1same", "v2Same", "v2Decimal"])
def test_bent_bytes_are_an_error_or_deletes(name: str) -> None:
    """Whatever byte changes, nothing but our own error comes of it."""
    for place in range(len(BYTES[name])):
        for byte in (0, 1, 2, 3, 0x40, 0x7F, 0x80, 0xC0, 0xFF):
            bent = bytearray(BYTES[name])
            bent[place] = byte
            try:
                read(struct.pack(">ii", int(name[1]), len(bent)) + bytes(bent))
            except (BrokenFile, Unsupported) as error:
                assert "x.log" in str(error)
