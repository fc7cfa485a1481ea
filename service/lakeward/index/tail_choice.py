"""Whether logs of a table get tails (`format/log/log_tail`): what an operator said of it, which the table itself keeps.

    <table>/.hoodie/.lakeward/index/tails/manifest-…    the greatest is what holds (`index/manifest_form`)

Lakeward cannot know which programs read a table. So no log gets a tail before an operator says so, and after `--off`
the logs that have one keep it until they are compacted.

Touches: nothing; `read_tail_choice` the folder, reading.
Keeps:   1. a file that is damaged is refused, and never read as if there were none;
         2. nothing is said of tables whose logs can have no tail.
See:     docs/decisions/0155-tails-of-logs.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeward.base.errors import Refused
from lakeward.base.paths import join
from lakeward.index.manifest_form import ManifestForm, TableChoice
from lakeward.index.out_of_use import FOLDER
from lakeward.storage.storage import Storage
from lakeward.table.table_config import TableConfig, hoodie_folder


@dataclass(frozen=True, slots=True)
class TailChoice(TableChoice):
    are_written: bool = False

    @property
    def may_be_there(self) -> bool:
        """Some log may have a tail."""
        return self.number > 0


def _document(choice: TailChoice) -> Mapping[str, Any]:
    return {"are_written": choice.are_written, "by": choice.by}


def _choice(number: int, document: Mapping[str, Any]) -> TailChoice:
    return TailChoice(number, bool(document["are_written"]), by=document["by"])


TAIL_CHOICE_FORM: Final = ManifestForm(
    index="the choice of tails",
    remedy="Restore the file, or delete the folder that it is in: then logs get no tails until "
    "`lakeward index tails TABLE --auto` is run again.",
    version=1,
    document_of=_document,
    manifest_of=_choice,
    number_of=lambda name: None,
)


def tail_choice_folder(base_path: str) -> str:
    return join(hoodie_folder(base_path), FOLDER, "tails")


def read_tail_choice(storage: Storage, base_path: str) -> TailChoice:
    """What holds. Raises what `ManifestForm.decode` does."""
    return TAIL_CHOICE_FORM.read_newest(storage, tail_choice_folder(base_path)) or TailChoice()


def gets_tails(storage: Storage, base_path: str, config: TableConfig) -> bool:
    """Whether a log that is written now gets one. Raises what `read_tail_choice` does."""
    return why_no_tails(config) is None and read_tail_choice(storage, base_path).are_written


def why_no_tails(config: TableConfig) -> str | None:
    """Why logs of the table can have no tail: a sentence; None where they can."""
    if not config.is_merge_on_read:
        return "It is copied on write, and has no logs."
    if not config.version.has_logs_of_one_write:
        return "Writers of its version append to logs that are there, so that no tail would stay at the end."
    if config.made_key_fields:
        return "Its rows do not carry their keys (hoodie.populate.meta.fields)."
    return None


def check_can_have_tails(base_path: str, config: TableConfig) -> None:
    """Raises `Refused`."""
    if (why := why_no_tails(config)) is not None:
        raise Refused(f"Logs of {base_path} get no tails.", why=why, remedy="Nothing was changed.")
