"""The verbs of `lakeward index`, each put into the group where it is defined.

Touches: nothing before a verb is carried out.
"""

from lakeward.cli.index import (
    build_command,
    changes_command,
    compare_command,
    list_command,
    lookup_command,
    migrate_command,
    rebuild_command,
    tee_command,
    verify_command,
)
from lakeward.cli.index.group import index_app

__all__ = [
    "build_command",
    "changes_command",
    "compare_command",
    "index_app",
    "list_command",
    "lookup_command",
    "migrate_command",
    "rebuild_command",
    "tee_command",
    "verify_command",
]
