"""Which files of the cache are rewritten."""

from lakeward.index.bloom.cache_file import CacheFile
from lakeward.index.bloom.cache_merge import SMALL_BYTES, SMALL_MAX, files_to_replace


def file(number: int, size: int = SMALL_BYTES) -> CacheFile:
    return CacheFile(f"data/{number}", size, 10, 0, 0)


def test_files_with_little_in_them_are_replaced():
    """Half of its base files are gone, or all of them."""
    live = {file(1): 10, file(2): 6, file(3): 5, file(4): 0}
    assert files_to_replace(live) == {file(3), file(4)}


def test_small_files_are_replaced_once_there_are_many():
    """One more than may be; large ones stay."""
    small = {file(number, SMALL_BYTES - 1): 10 for number in range(SMALL_MAX)}
    assert files_to_replace(small | {file(99): 10}) == set()
    more = small | {file(50, 1): 10}
    assert files_to_replace(more | {file(99): 10}) == set(more)
