"""Without credentials an object store is given up at once, and what to set is said."""

from __future__ import annotations

import pytest

from lakeward.base.errors import NoCredentials
from lakeward.storage.credentials import check_credentials
from lakeward.storage.object_url import Provider


def is_silent(address: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("provider", "environment", "shown"),
    [
        (Provider.S3, {}, "AWS_REGION"),
        (Provider.S3, {"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": ""}, "AWS_ACCESS_KEY_ID"),
        (Provider.AZURE, {"AZURE_STORAGE_ACCOUNT_NAME": "lake"}, "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_nothing_says_who_we_are(provider: Provider, environment: dict[str, str], shown: str) -> None:
    """Neither the environment nor the machine: the remedy names what to set, credentials and region."""
    with pytest.raises(NoCredentials, match="metadata address is silent") as raised:
        check_credentials(provider, "s3://lake", environment, is_there=is_silent)
    assert shown in raised.value.remedy and raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (Provider.S3, "AWS_ACCESS_KEY_ID"),
        (Provider.S3, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        (Provider.S3, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        (Provider.GOOGLE, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        (Provider.AZURE, "AZURE_STORAGE_ACCOUNT_KEY"),
        (Provider.AZURE, "AZURE_CLIENT_ID"),
    ],
)
def test_the_environment_says_it(provider: Provider, name: str) -> None:
    """One way to say it is enough, and the machine is not asked."""
    check_credentials(provider, "there", {name: "x"}, is_there=is_silent)


def test_the_machine_is_asked_at_its_own_address() -> None:
    """AWS_METADATA_ENDPOINT moves it; where anything answers, the client may ask on."""
    asked: list[str] = []

    def is_there(address: str) -> bool:
        asked.append(address)
        return True

    check_credentials(Provider.S3, "s3://lake", {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:1"}, is_there=is_there)
    check_credentials(Provider.S3, "s3://lake", {}, is_there=is_there)
    assert asked == ["http://127.0.0.1:1", "http://169.254.169.254"]
