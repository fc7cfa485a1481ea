"""What keeping indexes measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.index.build_state import BuildProgress
from lakeward.services.indexing.index_memory import IndexMemory, IndexStatus, TeeStatus
from lakeward.services.metric import JobChecks, JobCounter, MemoryGauge, Reading, ServiceMetric, Shown, counter, gauge


def _of_each(figure: Callable[[IndexStatus, float], float | None]) -> Callable[[Any, object, float], Reading]:
    """A figure of each index of the table that has it."""

    def read(memory: IndexMemory | None, demand: object, now: float) -> Reading:
        found = {index.name: figure(index, now) for index in (memory or IndexMemory()).indexes}
        return {name: value for name, value in found.items() if value is not None} or None

    return read


def _coverage(index: IndexStatus, now: float) -> float | None:
    if index.coverage is None:
        return None
    return index.coverage.bases / index.coverage.of_bases if index.coverage.of_bases else 1.0


def _doubled_keys(memory: IndexMemory | None, demand: object, now: float) -> Reading:
    return None if memory is None or memory.doubled_keys is None else float(memory.doubled_keys)


def _log_bytes(memory: IndexMemory | None, demand: object, now: float) -> Reading:
    if memory is None or memory.logs is None or not memory.logs.coverage.logs:
        return None
    return {kind: float(size) for kind, size in memory.logs.coverage.by_kind.items()}


def _on_trial(figure: Callable[[TeeStatus], int]) -> Callable[[Any, object, float], Reading]:
    """A figure of the index that is on trial."""

    def read(memory: IndexMemory | None, demand: object, now: float) -> Reading:
        tee = None if memory is None else memory.tee
        return None if tee is None or tee.tee.shadow is None else {tee.shadow_name: float(figure(tee))}

    return read


def _builds(figure: Callable[[BuildProgress], float]) -> Callable[[Any, object, float], Reading]:
    """A figure of each build of an index that is under way, or was stopped."""

    def read(memory: IndexMemory | None, demand: object, now: float) -> Reading:
        builds = {} if memory is None else memory.builds
        return {kind.value: float(figure(build)) for kind, build in builds.items()} or None

    return read


METRICS: tuple[ServiceMetric, ...] = (
    MemoryGauge(
        gauge(
            "lakeward_table_doubled_keys",
            "Keys of a commit that logs of other file groups have, too, on a table whose new keys go into logs; "
            "nothing before the first look, and after one that failed.",
            "table",
            shown=Shown.NOTABLE,
        ),
        _doubled_keys,
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_wrong_keys",
            "Rows and entries that differed in the last check of the index; nothing before the first check.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(lambda index, now: None if index.checked_at is None else float(index.wrong)),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_out_of_use",
            "1 while Lakeward does not use the index, because it was found to be wrong.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(lambda index, now: float(bool(index.out_of_use))),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_checked_timestamp_seconds",
            "When the index was last compared with a sample of the table's rows; nothing before the first check.",
            "table",
            "index",
        ),
        _of_each(lambda index, now: index.checked_at),
        min,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_behind_commits",
            "Commits, rollbacks and restores that an index of Lakeward's, below the table or in the store's database, "
            "does not have, as of the last plan; of the cache of filters (`bloom`) those of whose files it lacks any.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(lambda index, now: None if index.behind is None else float(index.behind.commits)),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_behind_bytes",
            "What they wrote, which each lookup reads; beyond 256 MiB lookups are refused. Of `bloom` the files that "
            "it lacks, of which lookups read the footers.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(lambda index, now: None if index.behind is None else float(index.behind.bytes)),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_behind_seconds",
            "Since the first of them completed; 0 where the index has all.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(IndexStatus.seconds_behind),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_unreadable",
            "1 while it is unknown what an index of Lakeward's lacks, because its manifest or a commit of the table "
            "cannot be read; lookups in it fail. With `bloom` they read footers.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _of_each(lambda index, now: float(bool(index.problem)) if index.type.is_kept else None),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_coverage_ratio",
            "Base files of the table that the cache of filters (`bloom`) has, by all of them. Below 1 while it is not "
            "behind, some could not be read.",
            "table",
            "index",
        ),
        _of_each(_coverage),
        min,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_coverage_bytes",
            "Bytes of the newest slices' logs by what says which keys they have: their own `tail`, the filter `cache`, "
            "or `nothing`, where a lookup by `bloom --with-logs` merges the slice. Nothing for a table without logs.",
            "table",
            "by",
        ),
        _log_bytes,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_shadow_compared_keys",
            "Keys of commits for which an index on trial was compared with the one that writes use, since the two "
            "were chosen; nothing for a table without one.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.tee.keys),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_shadow_wrong_keys",
            "Locations among these in which it was wrong.",
            "table",
            "index",
            shown=Shown.NOTABLE,
        ),
        _on_trial(lambda tee: tee.tee.keys_wrong),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_shadow_clean_commits",
            "Commits in a row, up to the last one compared, in which it was right for every key.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.tee.clean),
        min,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_shadow_behind_commits",
            "Commits that are still to be compared, as of the last plan.",
            "table",
            "index",
        ),
        _on_trial(lambda tee: tee.behind.commits),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_build_file_groups",
            "File groups whose keys a build of an index of Lakeward's reads, as of the last plan; nothing where none "
            "is under way, and none was stopped.",
            "table",
            "index",
        ),
        _builds(lambda build: build.of),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_build_read_file_groups",
            "File groups among these that are read.",
            "table",
            "index",
        ),
        _builds(lambda build: build.read),
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_build_progress_timestamp_seconds",
            "When a build read a file group last; one whose process died stays where it is.",
            "table",
            "index",
        ),
        _builds(lambda build: build.newest_at),
        min,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_load_ratio",
            "Entries of a record index of Lakeward's by what the buckets have room for that entries go to; 1 is full. "
            "Full buckets grow when it is brought up to date.",
            "table",
            "index",
        ),
        _of_each(lambda index, now: None if index.load is None else index.load.mean),
        max,
    ),
    MemoryGauge(
        gauge(
            "lakeward_table_index_fullest_bucket_ratio",
            "The same for the fullest bucket; far above the ratio of all, keys are spread badly.",
            "table",
            "index",
        ),
        _of_each(lambda index, now: None if index.load is None else index.load.fullest),
        max,
    ),
    JobCounter(
        counter(
            "lakeward_indexed_commits_total",
            "Commits of the table that the daemon took into indexes of Lakeward's; once for each index.",
            "table",
        ),
        lambda figures: figures.index_commits,
    ),
    JobChecks(
        "index",
        lambda figures: (figures.index_keys_verified - figures.index_keys_wrong, figures.index_keys_wrong),
    ),
)
