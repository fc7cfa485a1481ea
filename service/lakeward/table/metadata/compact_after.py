"""After how many delta commits the metadata table is compacted, as an operator sets it.

It stands apart from `metadata_trigger`, which acts on it, because settings are read where nothing else of a table is.

Touches: nothing.
"""

from __future__ import annotations

from typing import Literal

AUTO: Literal["auto"] = "auto"
MetadataCompactAfter = int | Literal["auto"]
"""After how many delta commits; `auto`: before the writers; 0: never."""
