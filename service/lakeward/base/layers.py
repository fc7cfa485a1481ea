"""Settings of other people's keys in layers, where a setting may have an older name.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def merge_layers(*layers: Mapping[str, str], meaning: Callable[[str], str]) -> dict[str, str]:
    """The settings of all layers; a later one wins, also over the same setting under another name.

    Args:
        meaning: the same for two keys of one setting.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        overridden = {meaning(key) for key in layer}
        merged = {key: value for key, value in merged.items() if meaning(key) not in overridden} | dict(layer)
    return merged
