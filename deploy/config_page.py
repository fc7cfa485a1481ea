"""Write docs/reference/configuration.md and everything.toml from the models of the configuration.

    python -m deploy.config_page

Touches: those two files.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from lakeward.config.reference import Key, Section, sections
from lakeward.services.compaction.plan.setting_keys import SETTINGS

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "configuration.md"
EVERYTHING = ROOT / "deploy" / "config" / "everything.toml"

BEGIN, END = "<!-- made by `make config-page`: begin -->", "<!-- made by `make config-page`: end -->"

HEAD = """\
# Every key with its default, in comments: they may stay comments, and the default counts. A key without a default
# shows an example. Made from the code by `make config-page`; docs/reference/configuration.md says more.
"""

EXAMPLES = {
    "service.groups": "{ nightly = 1 }",
    "service.io_per_hour": '"200GiB"',
    "service.state_folder": '"/var/lib/lakeward"',
    "http.token_file": '"/run/secrets/lakeward-token"',
    "http.token": '"…"',
    "http.hosts": '["lakeward.internal"]',
    "spark.remote": '"sc://spark-connect:15002"',
    "spark.conf": '{ "spark.executor.memory" = "2g" }',
    "state.url": '"postgresql://lakeward@database/lakeward"',
    "state.url_file": '"/run/secrets/lakeward-store-url"',
    "locks.writers": '"share"',
    "locks.expire": '"30m"',
    "locks.writers_conflict": '"prefer-writer"',
    "locks.zookeeper.url": '"zk1:2181,zk2:2181,zk3:2181"',
    "locks.zookeeper.base_path": '"/hudi/locks"',
    "locks.zookeeper.lock_key": '"orders"',
    "discovery.roots": '["/data/lake"]',
    "discovery.include": '["*/silver/*"]',
    "discovery.exclude": '["*/scratch/*"]',
    "defaults.planner": '{ "hoodie.compaction.target.io" = "512000" }',
    "defaults.partitions": '["day=2026-*"]',
    "defaults.exclude_partitions": '["day=1970-*"]',
    "defaults.windows": '["Mon-Fri 22:00-06:00 Europe/Berlin", "Sat,Sun 00:00-24:00 Europe/Berlin"]',
    "defaults.listing": '"metadata"',
    "defaults.clean.policy": '"commits"',
    "defaults.clean.retain": "20",
    "defaults.clean.quarantine_max": '"500GiB"',
    "defaults.ttl.keep": '"90d"',
    "defaults.ttl.by": '"date"',
    "defaults.archive.min_commits": "40",
    "defaults.archive.max_commits": "60",
    "defaults.index.record.location": '"/data/indexes"',
    "defaults.index.record.buckets": "130",
    "defaults.timezone": '"Europe/Berlin"',
    "tables.locks": '{ writers = "stopped" }',
    "tables.match": '"*/orders_*"',
    "tables.path": '"/data/lake/orders"',
    "tables.name": '"orders"',
}
"""Example values of keys whose default is empty or says nothing."""


def document(text: str) -> str:
    """`text` with the reference as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(_table(section) for section in sections())
    planner = textwrap.fill(
        "Keys of `planner`: " + ", ".join(f"`{key}`" for key in SETTINGS) + ".", 120, break_on_hyphens=False
    )
    return f"{before}{BEGIN}\n\n{tables}\n{planner}\n\n{END}{after}"


def everything() -> str:
    return HEAD + "\n" + "\n".join(_commented(section) for section in sections())


def _table(section: Section) -> str:
    lines = [
        f"### {_header(section)}",
        "",
        *textwrap.wrap(section.description, 120, break_on_hyphens=False),
        "",
        "| key | default | |",
        "|---|---|---|",
    ]
    for key in section.keys:
        text = re.sub(r"\s*\n\s*", " ", key.description)
        kind = f"*{key.kind}{', needs a restart' if key.restart else ''}.*"
        lines.append(f"| `{key.name}` | {'' if key.default is None else f'`{key.default}`'} | {text} {kind} |")
    return "\n".join([*lines, ""])


def _commented(section: Section) -> str:
    lines = [*_comment(section.description), _header(section)]
    for key in section.keys:
        lines += ["", *_comment(f"{key.description} ({key.kind})"), f"# {key.name} = {_example(key)}"]
    if section.name == "tables":
        # An entry speaks of some table, so this one does.
        lines = [line.removeprefix("# ") if line.startswith("# match =") else line for line in lines]
    return "\n".join([*lines, ""])


def _header(section: Section) -> str:
    return "[[tables]]" if section.name == "tables" else f"[{section.name}]"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ", break_long_words=False)


def _example(key: Key) -> str:
    name = f"{key.section}.{key.name}"
    return EXAMPLES[name] if name in EXAMPLES else str(key.default)


def main() -> None:
    DOCUMENT.write_text(document(DOCUMENT.read_text()))
    EVERYTHING.write_text(everything())


if __name__ == "__main__":
    main()
