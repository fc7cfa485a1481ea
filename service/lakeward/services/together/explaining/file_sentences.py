"""What is known of a file, as sentences for an operator: what it is, why it is there and until when.

Touches: nothing.
Keeps:   every verdict has its sentence, with when that ends or how to end it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from lakeward.base.errors import BrokenFile
from lakeward.base.quantities import format_duration, format_size
from lakeward.format.timeline.instant import State, parse_instant_time
from lakeward.services.clean.plan.keeper import KeepReason
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.table.quarantine import set_aside_sentence


def explain_in_sentences(file: FileExplanation, *, now: float, zone: tzinfo | None) -> list[str]:
    """
    Args:
        now: seconds since the epoch, for ages.
        zone: of the table's instants, None where it is not known.
    """
    size = "" if file.size is None else f", {format_size(file.size)}"
    return [f"{file.path}{size}: {file.verdict}.", _origin(file, now, zone), *_verdict(file, now), *_dangers(file)]


def _origin(file: FileExplanation, now: float, zone: tzinfo | None) -> str:
    """What wrote it, and its place."""
    age = format_age(file.instant, now, zone)
    if file.written_by is not None and file.written_by.state is State.COMPLETED:
        by = f"written by {file.written_by.action} {file.instant}{age}"
    elif file.written_by is not None:
        by = f"of {file.written_by.action} {file.instant}{age}, which is {file.written_by.state.name.lower()}"
    elif file.is_archived:
        by = f"of {file.instant}{age}, which is older than the active timeline and counts as completed"
    else:
        by = f"of {file.instant}{age}, which is not on the timeline"
    kind = "base file" if file.log_name is None else "log of changes" if file.log_name.is_cdc else "log"
    is_ = "was" if isinstance(file.verdict, Gone) and file.size is None else "is"
    if file.place is None:
        return f"It {is_} a {kind} of file group {file.file_id}, {by}."
    place = file.place
    if place.slices == 1:
        which = "the only slice"
    elif place.number == 1:
        which = f"the newest of {place.slices} slices"
    else:
        which = f"slice {place.number} of {place.slices}, the newest first"
    return f"It is a {kind} of file group {file.file_id}, {by}. It is in {which}, that of {place.base_instant}."


def _verdict(file: FileExplanation, now: float) -> Iterator[str]:
    match file.verdict:
        case FileState.LIVE:
            if file.merged_by is not None:
                yield (
                    f"Log compaction {file.merged_by} superseded it: readers merge its output instead. It stays as "
                    "long as its slice, since slices go whole."
                )
            elif file.is_change_log:
                yield "Readers of rows pass over it; it is for queries that read the changes of compactions."
            else:
                yield "Readers of the table as it is now read it."
            yield FileState.LIVE.sentence
        case FileState.PINNED | FileState.RETAINED | FileState.DEAD:
            yield _superseded(file)
        case FileState.QUARANTINED:
            yield set_aside_sentence(file.quarantine_run or "", file.quarantined_until)
        case FileState.FROZEN:
            why = "" if file.frozen is None else f": {file.frozen.why}"
            yield f"No service touches its file group, whose slices are unknown{why}. `lakeward verify` says more."
        case FileState.UNCOMMITTED | FileState.ORPHAN as state:
            yield FileState(state).sentence
        case Gone.CLEANED:
            yield f"It is not there any more: clean {file.cleaned_by} deleted it."
        case Gone.ROLLED_BACK:
            yield f"It is not there: {file.rolled_back_by} rolled its write back."
        case Gone.MISSING if file.is_change_log:
            yield (
                "It is not there, its commit names it, and nothing on the timeline says who deleted it. No row is "
                "lost; queries that read the changes of compactions miss it."
            )
        case Gone.MISSING:
            yield (
                "It is not there, its commit names it, and nothing on the timeline says who deleted it. "
                "`lakeward verify` says what is lost; restore it where readers need it."
            )
        case Gone.UNKNOWN if file.size is not None:
            although = ", although its commit names it" if file.is_committed else ""
            yield (
                f"It is there, and the listing of the table's partitions has it not{although}: its readers do not see "
                "it, and no service touches it. `lakeward verify` says whether the table is right."
            )
        case Gone.UNKNOWN if "/" not in file.path:
            yield (
                "No partition of the table has a file of this name, and no clean, commit or rollback on the active "
                "timeline names it. Elsewhere it was not looked for: pass its path to have it looked for there."
            )
        case Gone.UNKNOWN:
            yield (
                "It is not there, and no clean, commit or rollback on the active timeline names it: it was deleted by "
                "one that is archived, or there was never such a file."
            )
    pinned = {each.savepoint.instant: each.sentence(now) for each in file.pinned}
    for keeper in file.keepers:
        if keeper.reason is KeepReason.SAVEPOINT:
            yield pinned.get(keeper.instant or "", keeper.sentence)
        elif keeper.reason is not KeepReason.NEWEST:
            yield keeper.sentence
    if file.dead_by and file.verdict is FileState.DEAD:
        yield f"Nothing keeps it ({', '.join(file.dead_by)}): the next clean deletes it."
        if file.hindrance is not None:
            yield f"But no clean can be planned just now. {file.hindrance}"
    if file.verdict is FileState.RETAINED and not file.keepers:
        yield "No clean looks at it: it is left out of cleaning."


def _superseded(file: FileExplanation) -> str:
    if file.replaced_by is not None:
        return f"No reader of the table as it is now reads it: {file.replaced_by} replaced its file group."
    by = file.place.superseded_by if file.place is not None else None
    return f"No reader of the table as it is now reads it: its slice was superseded by that of {by}."


def _dangers(file: FileExplanation) -> Iterator[str]:
    """What is going to be done to it."""
    for plan in file.plans:
        then = "passed over" if file.is_change_log else "merged"
        yield f"The pending plan of {plan} names it: it is {then} when that is carried out."
    if file.cleaning_by is not None:
        yield f"Clean {file.cleaning_by} is pending and names it: it is deleted when that is carried out."


def format_age(instant: str, now: float, zone: tzinfo | None) -> str:
    """` 3 h ago`; nothing where the zone is not known, or the instant is no moment."""
    if zone is None:
        return ""
    try:
        return f" {format_duration(max(0.0, now - parse_instant_time(instant, zone) / 1000))} ago"
    except BrokenFile:  # one that Hudi reserves
        return ""
