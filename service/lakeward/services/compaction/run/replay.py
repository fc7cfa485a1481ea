"""Keep what is needed to repeat an operation with a wrong result: names, sizes, digests, versions; no row, no secret.

Touches: one file in the state folder of the user, never the table.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import orjson

from lakeward.base.errors import VerificationFailed
from lakeward.base.printable import printable
from lakeward.engine.dispatch.dispatcher import own_versions
from lakeward.engine.task.operation_spec import OperationSpec
from lakeward.storage.storage import Storage, join


def keep_replay(folder: Path, storage: Storage, spec: OperationSpec, error: VerificationFailed) -> Path:
    """Write the bundle of one failed operation. Returns its path."""
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
