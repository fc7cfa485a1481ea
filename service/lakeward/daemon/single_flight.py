"""One piece of work of a kind at a time: a call that comes while one is under way is remembered, and joins nothing.

    begin -> True    the caller starts the work, and calls `end` with its result, whatever it is
          -> False   it is under way; `end` will say that it was asked for meanwhile

A storage or a store that hangs thus holds one thread for each kind of work, however often the daemon asks.

Touches: nothing. For one thread.
Keeps:   1. between a `begin` that returned True and its `end`, no other `begin` does;
         2. however often it was asked for meanwhile, `end` says so once.
"""

from __future__ import annotations


class SingleFlight:
    def __init__(self) -> None:
        self._is_under_way = False
        self._is_wanted = False

    @property
    def is_under_way(self) -> bool:
        return self._is_under_way

    def begin(self) -> bool:
        """True where the work is to be started now."""
        if self._is_under_way:
            self._is_wanted = True
            return False
        self._is_under_way, self._is_wanted = True, False
        return True

    def end(self) -> bool:
        """The work has a result. True where it was asked for since it began."""
        self._is_under_way = False
        return self._is_wanted
