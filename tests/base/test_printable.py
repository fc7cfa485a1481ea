from __future__ import annotations

import pytest

from lakeward.base.printable import (
    HIDDEN,
    SPARK_REDACTION,
    encodings,
    names_secret,
    printable,
    printable_url,
    secrets_around,
    secrets_in,
)

SECRET = "c4n4ry-9f3"

URLS = {
    f"sc://spark.example:15002/;token={SECRET}": f"sc://spark.example:15002/;token={HIDDEN}",
    f"sc://h:443/;use_ssl=true;x-api={SECRET};user_id=ada": f"sc://h:443/;use_ssl=true;x-api={HIDDEN};user_id=ada",
    f"sc://{SECRET}@h:443/": f"sc://{HIDDEN}@h:443/",
    f"postgresql://ada:{SECRET}@db:5432/lake": f"postgresql://ada:{HIDDEN}@db:5432/lake",
    f"postgresql://ada:a/b@{SECRET}@db/lake": f"postgresql://ada:{HIDDEN}@db/lake",
    f"postgresql://ada@/lake?host=/run&password={SECRET}&sslmode=require": (
        f"postgresql://ada@/lake?host=/run&password={HIDDEN}&sslmode=require"
    ),
    f"https://{SECRET}@zk.example/": f"https://{HIDDEN}@zk.example/",
    f"s3a://AKIA17:{SECRET}/x@lake/orders": f"s3a://AKIA17:{HIDDEN}@lake/orders",
    f"https://acc.blob.core.windows.net/c/t?sv=2024-01-01&sig={SECRET}&se=2027": (
        f"https://acc.blob.core.windows.net/c/t?sv=2024-01-01&sig={HIDDEN}&se=2027"
    ),
    f"https://b.s3.amazonaws.com/k?X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}": (
        f"https://b.s3.amazonaws.com/k?X-Amz-Signature={HIDDEN}&X-Amz-Security-Token={HIDDEN}"
    ),
}

HARMLESS = (
    "sqlite:////var/lib/lakeward.db",
    "local[*]",
    "spark://host:7077",
    "k8s://https://kube.example:6443",
    "zk1:2181,zk2:2181",
    "abfss://lake@account.dfs.core.windows.net/orders",
    "s3://lake/orders/hour=10:00/a@b",
    "file:///data/a:b@c/orders",
    "sc://h:15002/;use_ssl=true",
    "postgresql://ada@db/lake",
)


@pytest.mark.parametrize("url", URLS)
def test_urls(url: str) -> None:
    """A password, a token and a signature go; who is asked for what stays."""
    assert printable_url(url) == URLS[url]
    assert printable(f"cannot reach {url} (refused)") == f"cannot reach {URLS[url]} (refused)"
    assert any(SECRET in found for found in secrets_in(url))


@pytest.mark.parametrize("url", HARMLESS)
def test_urls_without_secrets_stay_as_they_are(url: str) -> None:
    """What an operator needs to find the place is not hidden."""
    assert printable_url(url) == url
    assert printable(f"at {url}") == f"at {url}"
    assert not {found for found in secrets_in(url) if found}


@pytest.mark.parametrize(
    "text",
    [
        f"spark.hadoop.fs.s3a.secret.key={SECRET}",
        f"spark.hadoop.fs.s3a.secret.key: {SECRET}",
        f'{{ "fs.azure.account.key.acc.dfs.core.windows.net" = "{SECRET}" }}',
        f"Authorization: Bearer {SECRET}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}",
        f"fs.azure.sas.lake.acc.blob.core.windows.net='{SECRET}'",
    ],
)
def test_assignments(text: str) -> None:
    """A setting whose name names a secret loses its value, in whatever form it is written down."""
    assert SECRET not in printable(text)
    assert HIDDEN in printable(text)
    assert SECRET in secrets_in(text.replace("Bearer ", ""))


def test_files_and_partitions_keep_their_names() -> None:
    """Hudi's write tokens open nothing, and a partition may be called token."""
    text = "/data/orders/token=3/fg1-0_1-2-3_20270115.parquet write_token=1-2-3, password_file=/run/x"

    assert printable(text) == text


@pytest.mark.parametrize(
    "name", ["fs.s3a.secret.key", "AWS_SESSION_TOKEN", "spark.ssl.keyPassword", "sig", "fs.s3a.access.key"]
)
def test_names_of_secrets(name: str) -> None:
    """The names that the engines and stores give to them."""
    assert names_secret(name)


@pytest.mark.parametrize("name", ["write_token", "fencing_token", "spark.ssl.keyStorePasswordFile", "signal", "design"])
def test_names_of_no_secrets(name: str) -> None:
    """A path says where one is, not which."""
    assert not names_secret(name)


def test_what_a_process_was_given() -> None:
    """Variables that name a secret, URLs in others, settings among the arguments; not a word that means something."""
    environment = {
        "AWS_SECRET_ACCESS_KEY": "from-variable",
        "LAKEWARD__SPARK__REMOTE": "sc://h/;token=from-url",
        "LAKEWARD__SPARK__CONF": '{ "fs.s3a.secret.key" = "from-conf" }',
        "HAS_TOKEN": "true",
        "PATH": "/usr/bin",
        "PWD": "/data/lake",
        "OLDPWD": "/data/lake/sales",
    }

    found = secrets_around(environment, ["--spark-conf", "spark.hadoop.fs.s3a.secret.key=from-argument"])

    assert found - {""} == {"from-variable", "from-url", "from-conf", "from-argument"}


def test_known_values_go_in_every_spelling() -> None:
    """They are found in a URL, in JSON and in a representation."""
    known = encodings(['a b"ü'])

    for text in ('is a b"ü.', "is a%20b%22%C3%BC.", "is a+b%22%C3%BC.", 'is a b\\"\\u00fc.'):
        assert printable(text, known) == f"is {HIDDEN}."


def test_sparks_expression_is_no_narrower_than_its_own() -> None:
    """What Spark hides by default, and the keys of storage accounts."""
    import re

    for name in (
        "secret",
        "password",
        "token",
        "access.key",
        "accessKey",
        "fs.azure.account.key.x",
        "fs.azure.sas.c.a",
    ):
        assert re.search(SPARK_REDACTION, f"spark.hadoop.{name}")


def test_what_is_printable_is_text():
    """A name that is no UTF-8 would stop the log, the store and the command that prints it."""
    assert printable("p=\udcff gone") == "p=\\udcff gone"
