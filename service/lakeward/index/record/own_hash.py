"""A hash of the operator's own, which spreads record keys over buckets: a function of an installed package.

A package names it as an entry point of the group `lakeward.record_hashes`; an index has it by `own:<name>`. The
function takes the keys (an Arrow array of text, without nulls) and gives a whole number of 64 bits for each, of the key
alone; the bucket is its floor-mod over the count of buckets.

The index keeps more than the name, since another release of the package may answer otherwise, and then no key would be
found where it is:

    own:crc32:cbf43926:414fa339       the name, and the hashes of two test keys

So whatever process has the name of the hash, on any machine, asks the function for the two keys before it asks for
others.

Touches: the entry points of installed packages; loads the one that is named.
Keeps:   a function that is missing, or answers otherwise than when the index was made, is refused before any key is
         looked up or written.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import Unsupported, UsageError
from lakeward.index.record.created_with import OWN_PREFIX

ENTRY_POINTS: Final = "lakeward.record_hashes"
_TEST_KEYS: Final = ("lakeward", "Zürich/42 😀")
_BITS: Final = 64

Hashes = npt.NDArray[np.int64]


def fingerprinted(name: str) -> str:
    """The full name of a hash that is asked for as `own:<name>`. Raises `UsageError` where it cannot be used."""
    short = name.removeprefix(OWN_PREFIX)
    found = _entry_point(short)
    if found is None:
        installed = sorted(each.name for each in entry_points(group=ENTRY_POINTS))
        raise UsageError(
            f"There is no hash {name}.",
            why=did_you_mean(short, installed, otherwise=f"No installed package has it among its {ENTRY_POINTS}."),
            remedy=f"Install the package whose entry point of {ENTRY_POINTS} it is, here and where Spark's tasks run.",
        )
    try:
        return _with_prints(short, _load(found))
    except Unsupported as error:
        raise UsageError(error.what, why=error.why, remedy=error.remedy) from error


def own_hashes(full_name: str, keys: pa.Array) -> Hashes:
    """The hash of each key. Raises `Unsupported` where the function is not what the index was made with."""
    if not len(keys):
        return np.empty(0, np.int64)  # many a function gives no whole numbers for none
    return _whole_numbers(full_name, _checked(full_name)(keys), len(keys))


@cache
def _checked(full_name: str) -> Any:
    short = full_name.removeprefix(OWN_PREFIX).partition(":")[0]
    found = _entry_point(short)
    if found is None:
        raise Unsupported(
            f"The index spreads its keys by the hash {full_name}, which is not installed here.",
            why=f"No installed package has '{short}' among its entry points of {ENTRY_POINTS}.",
            remedy="Install that package here and where Spark's tasks run (`make executor-env` packs it for these), or "
            "build the index again with another --hash.",
        )
    function = _load(found)
    if (now := _with_prints(short, function)) != full_name:
        raise Unsupported(
            f"The hash {full_name} answers otherwise than when the index was made.",
            why=f"Of its two test keys it makes {now} now, so keys would be looked for in the wrong buckets.",
            remedy="Install the release of its package that the index was made with, or build the index again.",
        )
    return function


def _entry_point(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)


def _load(found: EntryPoint) -> Any:
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"The hash {OWN_PREFIX}{found.name} cannot be loaded.",
            why=f"{found.value}: {error}",
            remedy="Mend the package that names it, or install it with all that it needs.",
        ) from error


def _with_prints(name: str, function: Any) -> str:
    """The full name; the function is asked for both keys at once and for each alone, in whatever order."""
    first, second = _TEST_KEYS
    prints = _asked(name, function, [first, second])
    if _asked(name, function, [second, first]) != prints[::-1] or _asked(name, function, [second]) != prints[1:]:
        raise Unsupported(
            f"{OWN_PREFIX}{name} is no hash of a key.",
            why="It gives one key other numbers beside other keys.",
            remedy="Let it give each key a number that follows from that key alone.",
        )
    return ":".join((f"{OWN_PREFIX}{name}", *(f"{each % 2**_BITS:x}" for each in prints)))


def _asked(name: str, function: Any, keys: list[str]) -> list[int]:
    hashes: list[int] = _whole_numbers(name, function(pa.array(keys, pa.string())), len(keys)).tolist()
    return hashes


def _whole_numbers(name: str, answer: Any, count: int) -> Hashes:
    hashes = np.asarray(answer)
    if hashes.shape != (count,) or hashes.dtype.kind not in "iu":
        raise Unsupported(
            f"The hash {name} gives no whole number for each key.",
            why=f"For {count} keys it gave an array of {hashes.dtype} with the shape {hashes.shape}.",
            remedy="Let it give an array of 64-bit integers, one for each key, in their order.",
        )
    return hashes.astype(np.int64)
