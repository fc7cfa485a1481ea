"""Builds of indexes whose tasks run in this process, one after the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.key_checkpoint import make_checkpoint
from lakeward.index.out_of_use import FOLDER
from lakeward.services.indexing.run.bucket_build import write_buckets
from lakeward.services.indexing.run.build_work import BuildWork
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage


def build_folder(base: Path) -> Path:
    return base / ".hoodie" / FOLDER / "building"


def in_process(base: Path, storage: Storage | None = None, **words: Any) -> BuildWork:
    """The work of a build of the table at `base`."""
    return BuildWork(
        str(build_folder(base)),
        lambda size: InProcessDispatcher(),
        partial(make_checkpoint, storage or LocalStorage()),
        partial(write_buckets, storage or LocalStorage()),
        **words,
    )
