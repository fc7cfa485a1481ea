"""A verb of the command line as data: a service declares its verbs in its folder (`verbs.py`), and the frame gathers
them.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Verb:
    """What is known of a verb, or of a group of verbs, before it is loaded."""

    name: str
    place: str = ""
    """`module:function`, below `lakeward.cli`; a group has none."""
    example: str = ""
    """What is written behind its name, in the example of its help."""
    has_exit_code: bool = False
    """It takes --exit-code."""
    help: str = ""
    """The help of a group; that of a verb is stored (`verb_help`)."""
    verbs: tuple[Verb, ...] = ()
    """The verbs of a group."""
    panel: str = ""
    """The heading below which help lists it, of a verb that a service declares."""
    of: tuple[str, ...] = ()
    """The folders of services that it is made of, beside the one that declares it: without one of them it is not
    there."""
    now: str = ""
    """The new name, with its arguments: this one takes any words and ends with an error, whose reason is `help`."""


def there(verbs: Iterable[Verb], folders: frozenset[str]) -> Iterator[Verb]:
    """The verbs that these services make up."""
    for verb in verbs:
        if folders.issuperset(verb.of):
            inner = tuple(there(verb.verbs, folders))
            if inner or not verb.verbs:
                yield replace(verb, verbs=inner)
