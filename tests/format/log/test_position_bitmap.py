"""Bitmaps of record positions, as Hudi 1.2.0 wrote them and as the format's specification has them."""

import base64
import struct

import numpy as np
import pytest

from lakeward.format.log.position_bitmap import decode_position_bitmap


def text(*parts):
    """(high half, the 32-bit bitmap) of each part, encoded."""
    data = struct.pack("<q", len(parts)) + b"".join(struct.pack("<i", high) + bitmap for high, bitmap in parts)
    return base64.b64encode(data).decode()


def arrays(**containers):
    """A bitmap of sorted arrays: name of the high 16 bits -> low ones."""
    found = [(int(key[1:]), lows) for key, lows in containers.items()]
    heads = b"".join(struct.pack("<HH", key, len(lows) - 1) for key, lows in found)
    body = b"".join(np.array(lows, "<u2").tobytes() for _, lows in found)
    return struct.pack("<II", 12346, len(found)) + heads + b"\0" * 4 * len(found) + body


def runs(first, *pairs):
    rows = sum(more + 1 for _, more in pairs)
    body = struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs)
    return struct.pack("<I", 12347) + b"\1" + struct.pack("<HH", first, rows - 1) + body


def bits(first, numbers):
    mask = np.zeros(65536, np.uint8)
    mask[numbers] = 1
    body = np.packbits(mask, bitorder="little").tobytes()
    return struct.pack("<II", 12346, 1) + struct.pack("<HH", first, len(numbers) - 1) + b"\0" * 4 + body


def test_each_kind_of_container():
    """Arrays, runs and bitmaps, in low and high parts, give the numbers that went in."""
    assert decode_position_bitmap(text((0, arrays(k0=[1, 3, 5], k2=[7])))).tolist() == [1, 3, 5, 2 * 65536 + 7]
    assert decode_position_bitmap(text((1, runs(0, (4, 2), (10, 0))))).tolist() == [2**32 + n for n in (4, 5, 6, 10)]
    many = np.arange(0, 65536, 3)
    assert decode_position_bitmap(text((0, bits(1, many)))).tolist() == (many + 65536).tolist()
    assert decode_position_bitmap(text()).tolist() == []


@pytest.mark.parametrize(
    "wrong",
    [
        "not Base64!",
        "",
        text((0, arrays(k0=[1, 3])))[:-8],
        base64.b64encode(base64.b64decode(text((0, arrays(k0=[1])))) + b"x").decode(),
        text((0, struct.pack("<II", 7, 1))),
        text((0, arrays(k0=[3, 1]))),
        text((-1, arrays(k0=[1]))),
    ],
)
def test_what_is_no_bitmap(wrong):
    """It is an error, whatever is wrong: cut short, too long, another cookie, numbers that do not ascend."""
    with pytest.raises(ValueError, match=r"\w"):
        decode_position_bitmap(wrong)
