"""`lakeward erase-status TABLE --keys FILE`: which files still hold record keys that were deleted, until when and why;
and, once none does, a receipt. `lakeward erase-verify RECEIPT` checks one.

Touches: stdout, stderr; the key files, reading; the table and its indexes on servers, reading only, through
         `services/together/erasure`; the receipt, which is a new file.
Keeps:   1. nothing of the key file is printed: a key is its line, and an HMAC of it with a salt;
         2. the exit code says what was found: 0 no file holds any key and all was looked at, 7 a file holds one, 4
            where something could not be looked at, and no file holds one;
         3. a receipt is written only with exit code 0, and over no other file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.errors import UsageError
from lakeward.base.quantities import format_count, format_iso_time, format_size, format_time
from lakeward.cli.configured_table import ConfiguredTable, ZonedTable
from lakeward.cli.index.group import work_watched
from lakeward.cli.index.own_index import outside_indexes
from lakeward.cli.look.explain_command import explanation_of
from lakeward.cli.options.new_file import write_new
from lakeward.cli.result import PARTIAL_EXIT, PROBLEMS_EXIT, Result
from lakeward.cli.terminal import Rendered
from lakeward.services.indexing.settings import record_options_of
from lakeward.services.together.erasure.erase_status import (
    EraseStatus,
    Holding,
    KeyState,
    look_for_keys,
)
from lakeward.services.together.erasure.holdings import ErasureSteps, plan_steps
from lakeward.services.together.erasure.key_file import NamedKeys, key_hmac, read_key_file
from lakeward.services.together.erasure.receipt import check_receipt, check_signing_key, make_receipt
from lakeward.services.together.erasure.wanted_keys import ErasureKeys

HELD_EXIT = 7

SigningKeyOption = Annotated[
    Path | None,
    typer.Option("--sign-with", metavar="FILE", help="The key of receipts, 32 random bytes or more."),
]

KeysOption = Annotated[
    Path,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="Record keys, as `_hoodie_record_key` has them, one a line; or a Parquet or CSV file with a column `key`; "
        "- for standard input.",
    ),
]
IndexUrlsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Also ask the indexes of the table on this server: PostgreSQL as postgresql://user@host/database, Hudi's "
        "in HBase as hbase://zk1,zk2:2181/TABLE. Repeatable. The store of the configuration is asked anyway, if it is "
        "in PostgreSQL.",
    ),
]

SALT_BYTES = 32
_HOLDINGS_SHOWN = 20
_LINES_SHOWN = 8


def erase_status(
    *,
    opened: ZonedTable,
    keys: KeysOption,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a signed receipt into this new file, if no file holds any key."),
    ] = None,
    sign_with: SigningKeyOption = None,
    urls: IndexUrlsOption = None,
    expedite: Annotated[
        bool,
        typer.Option(
            "--expedite",
            help="Also plan the commands that end it sooner, in their order. None of them is run: `lakeward "
            "erase-expedite` runs them.",
        ),
    ] = False,
) -> Result:
    """Show which files still hold record keys that were deleted, until when, and why. Reads only.

    Every file below the table's base path is looked into, decompressed: slices old and new, logs, delete blocks, change
    logs, the quarantine, savepointed files, the metadata table with its own old slices, Lakeward's indexes, the
    timeline, and files that nothing names; an index at a configured location too, and one in PostgreSQL or HBase with
    --url. A key that a query still finds is reported as live: it is not deleted.

    The output names a key by its line in the file and by an HMAC with a random salt. A key of fewer than eight bytes is
    looked for in columns of keys alone, since it occurs in other text by chance.

    With --expedite it also plans the compactions and cleans that end what it found. What a savepoint, the quarantine,
    the clean policy, running queries or a consumer keep is named apart, with the command that releases it. `lakeward
    erase-expedite` carries the plan out.

    With --receipt and --sign-with it writes a receipt once no file holds any key: what was looked at, what was not, an
    HMAC of each key, and a signature. `lakeward erase-verify` checks one.

    Exit code 0 where no file holds any key, 7 where one does, 4 where something could not be looked at.
    """
    signing_key = _signing_key_for(receipt, sign_with)
    named = read_key_file(keys)
    salt = os.urandom(SALT_BYTES)
    status = looked_for(opened, named, urls or ())
    notes = []
    if receipt is not None and signing_key is not None:
        if status.is_gone:
            made_by = f"lakeward {version('lakeward')}"
            data = make_receipt(
                status, named.keys, base_path=opened.base_path, salt=salt, signing_key=signing_key, made_by=made_by
            )
            write_new("--receipt", receipt, data)
            notes.append(f"The receipt is in {receipt}.")
        else:
            notes.append("No receipt was written: it is for keys that no file holds, where every file was looked into.")
    steps = plan_steps([(each.path, each.because) for each in status.holdings]) if expedite else None

    def render(console: Console) -> None:
        render_status(opened.base_path, status, named, console)
        if steps is not None:
            render_steps(opened.base_path, steps, console)

    return Rendered(
        document=status_as_json(opened.base_path, status, named, salt)
        | {
            "receipt": str(receipt) if receipt is not None and status.is_gone else None,
            "expedite": None if steps is None else steps.as_json(opened.base_path),
        },
        render=render,
        notes=notes,
        exit_code=exit_code_of(status),
    )


def looked_for(opened: ConfiguredTable, named: NamedKeys, urls: Sequence[str]) -> EraseStatus:
    """What holds the keys now; progress is on standard error.

    Args:
        urls: of servers that have indexes of the table.
    """
    record = record_options_of(opened.table)
    outside = outside_indexes(opened, urls)
    with work_watched() as on_step:
        return look_for_keys(
            partial(explanation_of, opened),
            ErasureKeys(named.keys),
            name_of=lambda number: f"<key of line {named.lines[number]}>",
            folders=() if record.location is None else (record.folder(opened.base_path),),
            outside=outside,
            on_file=partial(on_step, "looked into {} of {} files"),
        )


def erase_verify(
    *,
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="What `erase-status --receipt` wrote.")],
    sign_with: SigningKeyOption = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Also say of these record keys whether the receipt is about them."),
    ] = None,
) -> Result:
    """Check a receipt that keys are gone: its signature and, with --keys, whether it is about these. Reads no table.

    Exit code 0 where it is as it was signed, and about each of the keys; 6 where it is not.
    """
    if sign_with is None:
        raise UsageError("It is not said with which key the receipt was signed.", remedy="Name its file: --sign-with.")
    named = NamedKeys((), ()) if keys is None else read_key_file(keys)
    signing_key = check_signing_key(_read(sign_with), name=str(sign_with))
    checked = check_receipt(_read(receipt), name=str(receipt), signing_key=signing_key, keys=named.keys)
    document = checked.document
    lines = [
        f"{receipt} is as it was signed: {document['statement']}",
        f"Table {document['base_path']} at {document['at_time']}, after {document['instant']}; "
        f"{format_count(len(document['keys']), 'key')}.",
        *(f"Asked as well: {each}." for each in document.get("indexes_elsewhere", [])),
        *(f"Not looked at: {each}." for each in document["not_looked_at"]),
    ]
    missing = [named.lines[number] for number in checked.missing]
    if keys is not None:
        lines.append(f"Not in it: {_lines(missing)}." if missing else f"Each key of {keys} is in it.")
    return Result(
        document={**document, "missing_lines": missing},
        lines=lines,
        exit_code=PROBLEMS_EXIT if missing else 0,
    )


def _signing_key_for(receipt: Path | None, sign_with: Path | None) -> bytes | None:
    """Raises `UsageError` before any file of the table is looked into."""
    if (receipt is None) is not (sign_with is None):
        raise UsageError(
            "--receipt and --sign-with go together.",
            why="A receipt is signed with a key of the operator.",
            remedy="Make a key (openssl rand -out receipts.key 32), keep it, and name it: --sign-with receipts.key.",
        )
    if receipt is None or sign_with is None:
        return None
    if receipt.exists():
        raise UsageError(f"{receipt} is there already.", remedy="Name a new file for the receipt.")
    return check_signing_key(_read(sign_with), name=str(sign_with))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read.", why=f"{error.strerror}.") from error


def exit_code_of(status: EraseStatus) -> int:
    if status.holdings:
        return HELD_EXIT
    return PARTIAL_EXIT if status.unread else 0


def status_as_json(base_path: str, status: EraseStatus, named: NamedKeys, salt: bytes) -> dict[str, Any]:
    files: list[list[int]] = [[] for _ in named.keys]
    for number, holding in enumerate(status.holdings):
        for key in holding.numbers.tolist():
            files[key].append(number)
    return {
        "base_path": base_path,
        "at": status.at,
        "at_time": format_iso_time(status.at),
        "instant": status.instant,
        "gone": status.is_gone,
        "judged_by": status.judged_by,
        "salt": salt.hex(),
        "counts": {state.value: status.count(state) for state in KeyState},
        "too_short_for_text": status.too_short_for_text,
        "keys": [
            {"line": line, "hmac": key_hmac(salt, key), "state": state.value, "files": held}
            for line, key, state, held in zip(named.lines, named.keys, status.states, files, strict=True)
        ],
        "files": [_holding_as_json(base_path, holding) for holding in status.holdings],
        "unread": [{"path": each.path, "why": each.why} for each in status.unread],
        "looked_at": status.looked_at.as_json(),
        "indexes_elsewhere": [index.name for index in status.asked],
        "not_looked_at": list(status.not_looked_at),
    }


def _holding_as_json(base_path: str, holding: Holding) -> dict[str, Any]:
    because = holding.because
    return {
        "path": holding.path,
        "bytes": holding.size,
        "place": because.place.value,
        "kind": because.kind,
        "forms": {form.value: len(numbers) for form, numbers in holding.forms.items()},
        "keys": len(holding.numbers),
        "why": list(because.why),
        "until": because.until,
        "until_time": None if because.until is None else format_iso_time(because.until),
        "held_by": because.held_by,
        "release": [command.text(base_path) for command in because.release],
    }


def render_status(base_path: str, status: EraseStatus, named: NamedKeys, console: Console) -> None:
    for holding in status.holdings[:_HOLDINGS_SHOWN]:
        _render_holding(base_path, holding, named, console)
    if len(status.holdings) > _HOLDINGS_SHOWN:
        console.print(Text(f"{format_count(len(status.holdings) - _HOLDINGS_SHOWN, 'more file')} in --json"))
    for each in status.unread:
        console.print(Text(f"Could not be looked at: {each.path or base_path}: {each.why}", style="yellow"))
    if status.too_short_for_text:
        short = format_count(status.too_short_for_text, "key")
        console.print(
            Text(f"Looked for in columns of keys alone, since shorter than eight bytes: {short}.", style="dim")
        )
    live = [line for line, state in zip(named.lines, status.states, strict=True) if state is KeyState.LIVE]
    if live:
        console.print(Text(f"Not deleted, queries find them: {_lines(live)}.", style="bold red"))
    console.print(Text(f"{base_path}: {_sentence(status)}"))


def render_steps(base_path: str, steps: ErasureSteps, console: Console) -> None:
    if steps.steps:
        console.print(Text("These commands end it sooner, in this order; `lakeward erase-expedite` runs them:"))
    for command in steps.steps:
        console.print(Text(f"    run  {command.text(base_path)}", style="green"))
    for by, commands in steps.held.items():
        console.print(Text(f"Not expedited, kept by {by}. It is released with:", style="yellow"))
        for command in commands:
            console.print(Text(f"    {command.text(base_path)}"))
    for path in steps.left:
        console.print(Text(f"No command ends it: {path}", style="yellow"))


def _render_holding(base_path: str, holding: Holding, named: NamedKeys, console: Console) -> None:
    because = holding.because
    forms = ", ".join(f"{form}: {len(numbers):,}" for form, numbers in holding.forms.items())
    console.print(Text.assemble((holding.path, "bold"), f"  {because.kind}, {format_size(holding.size)} ({forms})"))
    lines = [named.lines[number] for number in holding.numbers[: _LINES_SHOWN + 1].tolist()]
    console.print(Text(f"  holds {format_count(len(holding.numbers), 'key')}: {_lines(lines)}"))
    for sentence in because.why:
        console.print(Text(f"  {sentence}"))
    if because.until is not None:
        console.print(Text(f"  Until {format_time(because.until)} at the earliest."))
    if because.held_by is not None:
        console.print(Text(f"  Kept by {because.held_by}.", style="yellow"))
    for command in because.release:
        console.print(Text(f"    run  {command.text(base_path)}", style="green"))


def _lines(lines: Sequence[int]) -> str:
    shown = ", ".join(f"{line:,}" for line in lines[:_LINES_SHOWN])
    noun = "line" if len(lines) == 1 else "lines"
    return f"{noun} {shown}{', …' if len(lines) > _LINES_SHOWN else ''}"


def _sentence(status: EraseStatus) -> str:
    counts = {state: format_count(status.count(state), "key") for state in KeyState}
    files, looked = sum(status.looked_at.files.values()), sum(status.looked_at.bytes.values())
    said = f"looked into {format_count(files, 'file')}, {format_size(looked)}"
    if status.asked:
        said += f", and asked {' and '.join(index.name for index in status.asked)}"
    if status.is_gone:
        return f"no file holds any of {counts[KeyState.GONE]}; {said}."
    held = f"{counts[KeyState.LIVE]} not deleted, {counts[KeyState.HELD]} still held, {counts[KeyState.GONE]} gone"
    return f"{held}; {said}."
