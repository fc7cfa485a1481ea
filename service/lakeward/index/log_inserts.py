"""Whether new keys of a table go into logs: what an operator said of it, which the table itself keeps.

    <table>/.hoodie/.lakeward/index/inserts/manifest-…    the greatest is what holds (`index/manifest_form`)

    nothing said       new keys go into base files, as with Hudi's writers
    into logs          `lakeward write` puts new keys into logs, where its index finds them there
    into base files    no new key goes into a log; some may still be in logs alone, until every log is compacted

While keys may be in logs alone an index of base files does not find them, but for `bloom` where Lakeward alone writes
the table: there it looks into logs, too (`bloom/slice_index`). No file of a Hudi table says by which index its other
writers go: so an operator does, and the base files of each commit since are looked through for keys that are in logs as
well (`index/doubled_keys`).

Touches: nothing; `read_log_inserts` the folder, reading.
Keeps:   a file that is damaged is refused, and never read as if there were none.
See:     docs/decisions/0133-new-keys-in-logs.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from lakeward.base.errors import Refused
from lakeward.base.paths import join
from lakeward.index.index_type import IndexType
from lakeward.index.manifest_form import ManifestForm, TableChoice
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage
from lakeward.table.table_config import hoodie_folder


@dataclass(frozen=True, slots=True)
class LogInserts(TableChoice):
    into_logs: bool = False
    may_hold_keys: bool = False
    """Keys may be in logs alone."""
    only_lakeward: bool = False
    """Lakeward alone writes the table, as an operator said: `lakeward write` by `bloom` finds keys in logs, and puts
    new ones there. Hudi's writers by that index would insert each of them again."""
    through: str | None = None
    """The base files of what completed up to this time hold no key that is in a log of another file group."""


def _document(said: LogInserts) -> Mapping[str, Any]:
    return {name: value for name, value in asdict(said).items() if name != "number"}


def _log_inserts(number: int, document: Mapping[str, Any]) -> LogInserts:
    said = {name: document[name] for name in ("into_logs", "may_hold_keys", "through", "by")}
    return LogInserts(number, only_lakeward=document.get("only_lakeward", False), **said)


LOG_INSERTS_FORM: Final = ManifestForm(
    index="the choice of where new keys go",
    remedy="Restore the file. Do not delete it while keys may be in logs alone: compact every file group that has logs "
    "first (`lakeward compact`), then delete the folder it is in.",
    version=1,
    document_of=_document,
    manifest_of=_log_inserts,
    number_of=lambda name: None,
)


def log_inserts_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER, "inserts")


def read_log_inserts(storage: Storage, base_path: str) -> LogInserts:
    """What holds. Raises what `ManifestForm.decode` does."""
    return LOG_INSERTS_FORM.read_newest(storage, log_inserts_folder(base_path)) or LogInserts()


def looks_into_logs(said: LogInserts, index: IndexType) -> bool:
    """Whether writes by this index find keys of base files, and of logs with them."""
    return said.may_hold_keys and said.only_lakeward and index is IndexType.BLOOM


def check_none_in_logs(said: LogInserts, *, what: str) -> None:
    """Raises `Refused` where keys may be in logs alone.

    Args:
        what: would lose sight of them; the beginning of a sentence.
    """
    if said.may_hold_keys:
        raise Refused(
            f"{what} while keys may be in logs alone.",
            why="An operator let new keys go into the table's logs (`lakeward index inserts`), and an index of base "
            "files does not find them there: a write would insert each of them again.",
            remedy="Compact every file group that has logs (`lakeward compact`), then run `lakeward index inserts "
            "TABLE --into-base-files`, which says when no key is left in logs.",
        )
