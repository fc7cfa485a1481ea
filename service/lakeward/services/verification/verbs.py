"""The verbs of verification."""

from __future__ import annotations

from lakeward.services.verb import Verb

VERBS = (Verb("verify", "look.verify_command:verify", "/data/orders", panel="Look at a table"),)
