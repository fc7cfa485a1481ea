"""Who we are to an object store: said in the environment, else shown by the machine's own address for that.

    said      AWS_ACCESS_KEY_ID, a web identity, a container's; GOOGLE_APPLICATION_CREDENTIALS; AZURE_…_KEY, …
    asked     http://169.254.169.254, where machines and containers of a cloud get their role

Off a cloud nothing is at that address, and the clients of object stores ask it again and again for a minute before
they say so. So it is asked once, for a second, and only where nothing is said.

Touches: the environment; a connection to that address, on which nothing is sent.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lakeward.base.errors import NoCredentials
from lakeward.storage.object_url import Provider

METADATA_ADDRESS = "http://169.254.169.254"
ANSWER_SECONDS = 1.0
"""On a machine that has it, the address answers in some milliseconds."""

_SAID = {
    Provider.S3: re.compile(
        r"AWS_(ACCESS_KEY_ID|WEB_IDENTITY_TOKEN_FILE|CONTAINER_CREDENTIALS_(RELATIVE|FULL)_URI|SKIP_SIGNATURE)"
    ),
    Provider.GOOGLE: re.compile(r"GOOGLE_(APPLICATION_CREDENTIALS|SERVICE_ACCOUNT\w*|SKIP_SIGNATURE)"),
    Provider.AZURE: re.compile(
        r"AZURE_\w*(KEY|SAS|TOKEN|CLIENT_ID|IDENTITY|MSI_ENDPOINT|EMULATOR|CLI|SKIP_SIGNATURE)\w*"
    ),
}
_WELL_KNOWN = {Provider.GOOGLE: ".config/gcloud/application_default_credentials.json"}
"""Files below the home folder that the client reads by itself."""

REMEDIES = {
    Provider.S3: "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, with AWS_ENDPOINT_URL where the store "
    "is not Amazon's; profiles of ~/.aws are not read. docs/operate/object-stores.md has the other ways.",
    Provider.GOOGLE: "Set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account; "
    "docs/operate/object-stores.md has the other ways.",
    Provider.AZURE: "Set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or a client's id and secret; "
    "docs/operate/object-stores.md has the other ways.",
}
"""How an operator says who we are, and where the store is."""


def answers(address: str) -> bool:
    """Whether anything takes a connection there within `ANSWER_SECONDS`."""
    place = urlsplit(address)
    try:
        with socket.create_connection((place.hostname or "", place.port or 80), timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False


def check_credentials(
    provider: Provider, place: str, environment: Mapping[str, str], *, is_there: Callable[[str], bool] = answers
) -> None:
    """Raises `NoCredentials` where neither the environment nor the machine can say who we are.

    Args:
        place: what is to be opened, for the message.
        is_there: whether anything is at the metadata address.
    """
    if any(_SAID[provider].fullmatch(name) and value for name, value in environment.items()):
        return
    if provider in _WELL_KNOWN and (Path.home() / _WELL_KNOWN[provider]).exists():
        return
    address = environment.get("AWS_METADATA_ENDPOINT") if provider is Provider.S3 else None
    if not is_there(address or METADATA_ADDRESS):
        raise no_credentials(provider, place, "and this machine has no role of its own: its metadata address is silent")


def no_credentials(provider: Provider, place: str, why: str) -> NoCredentials:
    return NoCredentials(
        f"There are no credentials for {place}.",
        why=f"The environment does not say who we are, {why}.",
        remedy=REMEDIES[provider],
    )


def asks_machine(text: str) -> bool:
    """Whether an error of a client is about its request to the machine's metadata address."""
    return "169.254.169.254" in text or "metadata.google.internal" in text
