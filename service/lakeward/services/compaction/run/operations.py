"""Carry the operations of a claimed plan out: one task for each file slice, into the attempt's folder.

Touches: through a dispatcher, which reads the slices and writes into the attempt's folder; a replay bundle in the
         state folder of the user, where a result was wrong.
Keeps:   1. all operations succeed, or the first failure is raised, with the others beside it, and each with the file
            group that it is about;
         2. the guard, which may stop the work, is asked with every report of progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import orjson

from lakeward.base.errors import BrokenFile, Conflict, LakewardError, Unsupported, VerificationFailed
from lakeward.base.paths import join
from lakeward.base.printable import printable
from lakeward.engine.dispatch.dispatcher import Dispatcher, Progress, own_versions
from lakeward.engine.slice_merges import merge_slices
from lakeward.engine.task.operation_spec import OperationKind, OperationResult, OperationSpec, finished_operations
from lakeward.engine.task.work_counters import Counters
from lakeward.format.schema_history import read_schema_version
from lakeward.index.tail_choice import gets_tails
from lakeward.protocol.progress import ENGINE_COUNTS, Engine
from lakeward.protocol.serviced_table import ServicedTable, label
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.services.compaction.run.claim import Claim
from lakeward.services.compaction.run.targets import Target
from lakeward.storage.storage import Storage

RunOperation = Callable[[OperationSpec, int], OperationResult]
ChooseDispatcher = Callable[[int], Dispatcher]
"""Maps a plan's input bytes to where it runs."""


_OF_CONTENT = (Unsupported, BrokenFile, VerificationFailed)


def keep_replay(folder: Path, storage: Storage, spec: OperationSpec, error: VerificationFailed) -> Path:
    """Write the bundle of one failed operation. Returns its path.

    Keep what is needed to repeat an operation with a wrong result: names, sizes, digests, versions; no row, no secret.
    """
    slice_ = spec.slice
    names = [*([slice_.base_file] if slice_.base_file else []), *slice_.log_files]
    statuses = {name: storage.stat(join(slice_.base_path, name)) for name in names}
    bundle = {
        "error": {"code": error.code, "what": printable(error.what), "why": printable(error.why)},
        "operation": asdict(spec),
        "files": {name: status.size if status else None for name, status in statuses.items()},
        "versions": asdict(own_versions()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"replay-{slice_.instant}-{slice_.file_id}-{spec.attempt}.json"
    path.write_bytes(orjson.dumps(bundle, option=orjson.OPT_INDENT_2))
    return path


def merge(
    table: ServicedTable, claim: Claim, choose_dispatcher: ChooseDispatcher, run_operation: RunOperation
) -> tuple[list[OperationResult], Engine | None]:
    """Run every operation; raise the first failure, with the others `beside` it. Returns what they ran on, too."""
    specs = _specs(table, claim)
    if not specs:
        return [], None  # and nothing is started for it
    dispatcher = choose_dispatcher(sum(spec.input_bytes for spec in specs))
    results = merge_slices(
        table,
        specs,
        dispatcher,
        run_operation,
        name=f"{label(claim.action)} {claim.instant}",
        elsewhere=_Elsewhere(table.storage, claim.attempt.folder, specs),
        failed=partial(_failed, table),
    )
    table.observer.counted(ENGINE_COUNTS[dispatcher.engine])
    return results, dispatcher.engine


class _Elsewhere:
    """What the storage shows of tasks on other machines: the files that they write, and which are finished."""

    def __init__(self, storage: Storage, attempt_folder: str, specs: Sequence[OperationSpec]) -> None:
        self._storage = storage
        self._folder = attempt_folder
        self._specs = specs
        self._seen = Counters()

    def __call__(self, progress: Progress) -> Counters:
        found = self._storage.list(self._folder)
        read = sum(self._specs[index].input_bytes for index in finished_operations(found))
        self._seen = self._seen.at_least(Counters(read, sum(status.size for status in found)))
        return self._seen


def failed_for_good(error: LakewardError) -> list[LakewardError]:
    """Which of the error and those beside it the same files of one file group would give again."""
    found = (error, *error.beside)
    return [each for each in found if isinstance(each, _OF_CONTENT) and each.file_group is not None]


def _failed(table: ServicedTable, spec: OperationSpec, error: LakewardError) -> None:
    error.file_group = spec.group_id
    if spec.kind is OperationKind.LOG and isinstance(error, Unsupported):
        # Alone, a run with --type full would finish the pending plan first, and fail on it in the same way.
        error.remedy = (
            f"Run `lakeward unschedule {table.base_path} {spec.slice.instant}`, and then `lakeward compact "
            f"{table.base_path} --type full --file-group {spec.slice.file_id}`."
        )
    if isinstance(error, VerificationFailed):
        bundle = keep_replay(table.options.state_folder, table.storage, spec, error)
        error.add_note(f"What is needed to repeat the operation is in {bundle}.")


def _specs(table: ServicedTable, claim: Claim) -> list[OperationSpec]:
    snapshot, options = claim.snapshot, table.options
    assert snapshot.schema is not None, "eligibility refuses a table without a schema"
    rules, logging = merge_rules(snapshot), snapshot.config.supplemental_logging
    version = snapshot.config.version
    committed = committed_writes(snapshot.timeline, version)
    _check_schema_is_older(claim)
    merges_logs = any(target.kind is OperationKind.LOG for target in claim.targets.of)
    tails = merges_logs and gets_tails(table.storage, table.base_path, snapshot.config)
    return [
        OperationSpec(
            index=index,
            kind=target.kind,
            slice=SliceInput(
                base_path=table.base_path,
                partition_path=target.slice.partition_path,
                file_id=target.slice.file_id,
                base_file=_base_path_of(target),
                log_files=tuple(join(target.slice.partition_path, log.name.text) for log in target.logs),
                instant=claim.instant,
                schema=snapshot.schema,
                rules=rules,
                memory_bytes=options.memory_bytes,
                accept_damaged_logs=options.accept_damaged_logs,
                widens_nested_floats=version.widens_floats_alike,
                committed=committed,
                superseded=target.superseded,
                since=target.slice.since if target.kind is OperationKind.FULL else None,
                key_fields=snapshot.config.made_key_fields,
                sorts=options.sorts,
            ),
            attempt=table.owner.attempt,
            attempt_folder=claim.attempt.folder,
            input_bytes=target.input_bytes,
            codec=options.codec,
            bloom_bytes_max=options.bloom_bytes_max,
            verify=options.verify,
            indexed=claim.indexed,
            supplemental_logging=logging if target.kind is OperationKind.FULL else None,
            tails=tails,
            native=version.has_native_logs and not (options.inline_changes and target.kind is OperationKind.FULL),
        )
        for index, target in enumerate(claim.targets.of)
    ]


def _check_schema_is_older(claim: Claim) -> None:
    """Readers with schema on read take a file for one of the version that was there at its instant, so what a plan from
    before a change of the schema asks for must not be written by the schema after it."""
    latest = claim.snapshot.latest_schema
    if latest is not None and read_schema_version(latest, where="the newest write").id > int(claim.instant):
        raise Conflict(
            f"The table's schema was changed after plan {claim.instant} was made.",
            why="The table has schema on read: its readers would take new files for ones of the schema before.",
            remedy="`lakeward unschedule` removes the plan; the next one has what it named. Nothing was written.",
        )


def _base_path_of(target: Target) -> str | None:
    if target.kind is OperationKind.LOG or target.slice.base_file is None:
        return None
    return join(target.slice.partition_path, target.slice.base_file.name)
