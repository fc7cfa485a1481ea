"""`lakeward erase-expedite TABLE --keys FILE`: carry out what `erase-status --expedite` plans; with --dry-run plan it.

    which files hold the keys -> the steps that break no promise -> each as its own command does it
                              -> which files hold the keys now

Touches: stdout, stderr; the key file, reading; the table, through the commands of its steps: `rollback`, `compact`,
         `clean`, `quarantine orphans`, `metadata compact`, `metadata clean`, `index update`.
Keeps:   1. nothing is written without a statement about the table's other writers, nor with --dry-run;
         2. only steps are carried out that the plan of the moment names, and the first that fails is the last;
         3. what is reported in the end was looked for after the last step, also where that failed.
See:     docs/decisions/0189-keys-in-indexes-elsewhere.md
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from lakeward.base.errors import LakewardError
from lakeward.cli.configured_table import ZonedTable
from lakeward.cli.index.build_command import update
from lakeward.cli.index.own_index import shown_place
from lakeward.cli.look.erase_command import (
    SALT_BYTES,
    IndexUrlsOption,
    KeysOption,
    exit_code_of,
    looked_for,
    render_status,
    render_steps,
    status_as_json,
)
from lakeward.cli.options.bloom_filter import BloomFilterArguments
from lakeward.cli.options.engine import EngineArguments
from lakeward.cli.options.lock import LockArguments
from lakeward.cli.options.plan_options import PlanArguments
from lakeward.cli.result import DryRunOption, Result, shown
from lakeward.cli.services import clean_command, compact_command, metadata_commands, quarantine_commands
from lakeward.cli.services.rollback_command import rollback
from lakeward.cli.terminal import Rendered, Terminal
from lakeward.index.index_type import lookup_type
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.together.erasure.erase_status import EraseStatus
from lakeward.services.together.erasure.holdings import ErasureSteps, ReleaseCommand, plan_steps
from lakeward.services.together.erasure.key_file import read_key_file


def erase_expedite(
    *,
    opened: ZonedTable,
    keys: KeysOption,
    urls: IndexUrlsOption = None,
    given: LockArguments,
    engine: EngineArguments,
    dry_run: DryRunOption = False,
) -> Result:
    """Run the compactions and cleans that make files with deleted record keys go sooner, then show what still has them.

    It looks for the keys as `lakeward erase-status` does, plans what `erase-status --expedite` shows, and carries that
    out in its order, each step as the command of that name does it, by the configuration of the table: compactions of
    the file groups that hold a key, cleans of the table and of its metadata table, rollbacks of dead attempts, updates
    of Lakeward's indexes. The first step that fails is the last one.

    No promise is broken: what a savepoint, the quarantine, the clean policy, running queries or a consumer keep stays,
    and so do indexes and the metadata table. Each is named with the command that releases it. A row that a query finds
    is not deleted, and stays.

    Exit code as that of `erase-status`, of what holds a key after the last step.
    """
    given.over(opened, dry_run=dry_run)
    named = read_key_file(keys)
    look = partial(looked_for, opened, named, urls or ())
    status = look()
    steps = steps_of(status)
    done: list[StepDone] = []
    if not dry_run and steps.steps:
        flows = _Flows(opened, given, engine, {shown_place(url): url for url in urls or ()})
        done = carried_out(steps.steps, flows.carry_out, base_path=opened.base_path)
        status = look()
    left = steps if dry_run else steps_of(status)
    salt = os.urandom(SALT_BYTES)

    def render(console: Terminal) -> None:
        for each in done:
            each.render(opened.base_path, console)
        render_status(opened.base_path, status, named, console)
        render_steps(opened.base_path, left, console)

    return Rendered(
        document=status_as_json(opened.base_path, status, named, salt)
        | {
            "dry_run": dry_run,
            "done": [each.as_json(opened.base_path) for each in done],
            "expedite": left.as_json(opened.base_path),
        },
        render=render,
        exit_code=exit_code_of(status),
        error=next((each.error for each in done if each.error is not None), None),
    )


def steps_of(status: EraseStatus) -> ErasureSteps:
    return plan_steps([(each.path, each.because) for each in status.holdings])


@dataclass(frozen=True, slots=True)
class StepDone:
    command: ReleaseCommand
    result: Result | None
    """None where it failed before it had one."""
    error: LakewardError | None = None

    def as_json(self, base_path: str) -> dict[str, Any]:
        return {
            "command": self.command.text(base_path),
            "result": None if self.result is None else self.result.document,
            "error": None if self.error is None else str(self.error),
        }

    def render(self, base_path: str, console: Console) -> None:
        console.print(Text(f"Ran  {self.command.text(base_path)}", style="green"))
        if self.result is not None:
            self.result.show()


def carried_out(
    steps: Sequence[ReleaseCommand], carry_out: Callable[[ReleaseCommand], Result], *, base_path: str
) -> list[StepDone]:
    """What was done, up to the first step that failed."""
    done: list[StepDone] = []
    for number, step in enumerate(steps, 1):
        typer.echo(shown(f"Step {number} of {len(steps)}: {step.text(base_path)}"), err=True)
        try:
            result = carry_out(step)
        except LakewardError as error:
            done.append(StepDone(step, None, error))
            break
        done.append(StepDone(step, result, result.error))
        if result.error is not None:
            break
    return done


@dataclass(frozen=True, slots=True)
class _Flows:
    """The commands of the steps, on one table."""

    opened: ZonedTable
    given: LockArguments
    engine: EngineArguments
    urls: Mapping[str, str]
    """The URLs of servers with indexes, by what is shown of each."""

    def carry_out(self, step: ReleaseCommand) -> Result:
        opened, given = self.opened, self.given
        match step.verb:
            case "rollback":
                return rollback(opened=opened, given=given)
            case "compact":
                groups = [option for option in step.options[2:] if not option.startswith("--")]
                return compact_command.compact(
                    opened=opened,
                    given=given,
                    plan=PlanArguments(kind=CompactionType.FULL, file_group=groups),
                    given_filter=BloomFilterArguments(),
                    engine=self.engine,
                )
            case "clean":
                return clean_command.clean(opened=opened, kept=clean_command.CleanArguments(), given=given)
            case "quarantine orphans":
                return quarantine_commands.orphans(opened=opened, given=given)
            case "metadata compact":
                return metadata_commands.compact(opened=opened, given=given, engine=self.engine)
            case "metadata clean":
                return metadata_commands.clean(opened=opened, given=given)
            case "index update":
                _, kind, *place = step.options
                url = self.urls[place[1]] if place else None
                return update(opened=opened, index_type=lookup_type(kind), engine=self.engine, url=url)
            case _:
                raise AssertionError(f"no step is planned with {step.verb}")
