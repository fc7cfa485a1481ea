"""The verbs of `lakeward index`, each put into the group where it is defined.

Touches: nothing before a verb is carried out.
"""

from lakeward.cli.index import list_command, lookup_command
from lakeward.cli.index.group import index_app

__all__ = ["index_app", "list_command", "lookup_command"]
