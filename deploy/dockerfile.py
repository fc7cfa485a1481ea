"""A Dockerfile as values: stages of instructions, for the tests and for the dry run.

It knows what our Dockerfile uses (comments, continued lines, one ARG before the first stage) and nothing more.

Touches: nothing.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

DOCKERFILE = Path(__file__).parent.parent / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    keyword: str
    text: str

    @property
    def words(self) -> list[str]:
        """The exec form, ["a", "b"], or the words of the plain one."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all(self, keyword: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.keyword == keyword]

    def last(self, keyword: str) -> Instruction:
        return self.all(keyword)[-1]


def read_stages(text: str) -> list[Stage]:
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for instruction in _instructions(text):
        if instruction.keyword == "ARG" and not stages:
            name, _, value = instruction.text.partition("=")
            arguments[name] = value
        elif instruction.keyword == "FROM":
            base, _, name = instruction.text.partition(" AS ")
            for argument, value in arguments.items():
                base = base.replace(f"${{{argument}}}", value)
            stages.append((name, base, []))
        else:
            stages[-1][2].append(instruction)
    return [Stage(name, base, tuple(instructions)) for name, base, instructions in stages]


def ancestry(stages: list[Stage], name: str) -> list[Stage]:
    """The stage and what it stands on, the lowest first."""
    by_name = {stage.name: stage for stage in stages}
    found: list[Stage] = []
    while name in by_name:
        found.insert(0, by_name[name])
        name = by_name[name].base
    return found


def _instructions(text: str) -> list[Instruction]:
    found = []
    line = ""
    for physical in text.splitlines():
        if physical.lstrip().startswith("#") or not physical.strip():
            continue
        line += physical.strip()
        if line.endswith("\\"):
            line = line[:-1]
            continue
        keyword, _, rest = line.partition(" ")
        found.append(Instruction(keyword, rest.strip()))
        line = ""
    return found
