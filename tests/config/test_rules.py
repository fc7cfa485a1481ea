"""What one key alone cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.config_files import problems_of, read, settings_of


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("spark.master = 'a'\nspark.remote = 'sc://b'", "2:7", "spark.master and spark.remote are both given."),
        ("spark.conf.spark.speculation = true", "1:18", "spark.speculation is on."),
        ("state.url = 'mysql://h/d'", "1:7", "state.url names no store that is known."),
        ("state.url = 'lakeward.db'", "1:7", "state.url names no store that is known."),
        (
            "service.listen = '0.0.0.0:1'",
            "1:9",
            "0.0.0.0:1 can be reached by other machines, and no request is asked for a token.",
        ),
        (
            "service.listen = '[::]:1'\nhttp.hosts = ['a']",
            "1:9",
            "[::]:1 can be reached by other machines, and no request is asked for a token.",
        ),
        ("http.token = '0123456789abcdef'", "1:6", "http.token is a secret."),
        ("defaults.locks.expire = '5m'", "1:10", "[defaults] has no locks."),
        (
            "locks.provider = 'zookeeper'",
            "1:7",
            "ZooKeeper keeps the lock, and its servers are not given.",
        ),
        (
            "locks.zookeeper.url = 'zk:2181'",
            "1:17",
            "ZooKeeper's servers are given, and not that ZooKeeper keeps the lock.",
        ),
        (
            "[[tables]]\npath = '/a'\nlocks.provider = 'zookeeper'",
            "3:7",
            "ZooKeeper keeps the lock, and its servers are not given.",
        ),
        (
            "locks.provider = 'zookeeper'\nlocks.zookeeper.url = 'zk'\n"
            "[[tables]]\nmatch = 'a'\nlocks.zookeeper.lock_key = 'a'",
            "5:17",
            "locks.zookeeper.lock_key is given without base_path.",
        ),
        ("defaults.group = 'a'", "1:10", "There is no group a."),
        ("service.memory = '100MiB'", "1:9", "memory, 512MiB, is more than all operations together may hold, 100MiB."),
        (
            "defaults.planner.hoodie.compaction.strategy = 'MyOwn'",
            "1:36",
            "MyOwn is not a compaction strategy that Lakeward knows.",
        ),
        (
            "[defaults.archive]\nhudi.hoodie.keep.min.commits = 20\n[defaults.clean]\nretain = 24",
            "2:1",
            "20 commits stay at least when a timeline is archived, and cleaning needs 25.",
        ),
        (
            "[defaults.archive]\nhudi.hoodie.keep.max.commits = 30\n"
            "[defaults.planner]\nhoodie.compact.inline.max.delta.commits = '40'",
            "2:1",
            "A compaction needs 40 delta commits, and of more than 30 commits the oldest are archived.",
        ),
        (
            "defaults.archive.hudi.hoodie.keep.min.commits = 40",
            "1:18",
            "40 commits cannot stay at least where more than 30 are too many.",
        ),
        ("defaults.archive.hudi.hoodie.keep.mx = '1'", "1:18", "There is no setting hoodie.keep.mx."),
        (
            "[defaults]\nobjective = '5s'",
            "2:1",
            "An objective of 5s is shorter than interval, 10s.",
        ),
        (
            "[defaults]\nobjective = '12h'\nwindows = ['daily 22:00-06:00', 'Sat 06:00-07:00']",
            "2:1",
            "No window is open for up to 16h, and no record is to be in logs only for more than 12h.",
        ),
        (
            "[defaults]\nobjective = '1d'\n[[tables]]\npath = '/a'\nwindows = ['Mon-Fri 22:00-06:00']",
            "5:1",
            "No window is open for up to 64h, and no record is to be in logs only for more than 1d.",
        ),
        (
            "[defaults]\nobjective = '10h'\n"
            "[defaults.planner]\nhoodie.compact.inline.trigger.strategy = 'NUM_OR_TIME'\n"
            "hoodie.compact.inline.max.delta.seconds = '9h'",
            "2:1",
            "A compaction falls due by time after 9h, and by the objective of 10h before that.",
        ),
        ("[[tables]]\ninterval = '1s'", "1:1", "This entry of [[tables]] says of no table that it is meant."),
        ("[[tables]]\nmatch = 'a'\npath = '/a'", "3:1", "match and path stand in one entry of [[tables]]."),
        ("[[tables]]\nname = 'a'\nmatch = 'a'", "2:1", "match and name stand in one entry of [[tables]]."),
        ("[[tables]]\npath = '/a'\n[[tables]]\npath = '/a/'", "4:1", "Two entries of [[tables]] have the path /a."),
        (
            "[[tables]]\npath = '/a'\nname = 'x'\n[[tables]]\npath = '/b'\nname = 'x'",
            "6:1",
            "Two entries of [[tables]] have the name x.",
        ),
        (
            "[[tables]]\nmatch = 'a'\nmemory = '3GiB'",
            "3:1",
            "memory, 3GiB, is more than all operations together may hold, 2GiB.",
        ),
        ("[[tables]]\nmatch = 'a'\nplanner.planner.publish = 'x'", "3:17", "planner.publish cannot be 'x'."),
        (
            "[defaults]\nobjective = '10m'\n[[tables]]\nmatch = 'a'\ninterval = '15m'",
            "5:1",
            "An objective of 10m is shorter than interval, 15m.",
        ),
    ],
)
def test_broken_rules(tmp_path: Path, text: str, place: str, what: str) -> None:
    """One problem each, at the key that an operator would change first."""
    assert problems_of(read(tmp_path, text)) == {place: what}


def test_who_may_read_the_page(tmp_path: Path) -> None:
    """A token, a proxy's word or the loopback interface let a caller in; a token that can be guessed is none."""
    everywhere = "service.listen = '0.0.0.0:1'\nhttp."
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert settings_of(tmp_path, f"{everywhere}token_file = 'token'").http_token == "0123456789abcdef"
    assert settings_of(tmp_path, f"{everywhere}behind_proxy = true").http_token is None
    assert (
        settings_of(tmp_path, f"{everywhere}hosts = ['a']", {"LAKEWARD__HTTP__TOKEN": "x" * 16}).http_token == "x" * 16
    )
    for content in ("", "0123456789", "0123456789 abcdef", "0123456789abcdéf", "0123456789\nabcdef"):
        (tmp_path / "token").write_text(content)
        assert problems_of(read(tmp_path, f"{everywhere}token_file = 'token'")) == {"2:6": "The token is none."}
    (tmp_path / "token").unlink()
    assert list(problems_of(read(tmp_path, f"{everywhere}token_file = 'token'"))) == ["2:6"]


def test_a_lock_in_zookeeper(tmp_path: Path) -> None:
    """There may be servers for all, another lock for one table, and a key for another."""
    settings_of(
        tmp_path,
        """\
        [locks]
        writers = "share"
        provider = "zookeeper"
        [locks.zookeeper]
        url = "zk1:2181,zk2:2181/lake"
        [[tables]]
        path = "/a"
        locks = { zookeeper = { base_path = "/locks", lock_key = "a" } }
        [[tables]]
        path = "/b"
        locks = { provider = "filesystem" }
        """,
    )


@pytest.mark.parametrize("written", ["url = 'http://zk'", "base_path = 'locks/'", "lock_key = 'a/b'", "lock_key = ''"])
def test_what_zookeeper_would_not_take(tmp_path: Path, written: str) -> None:
    """It is reported at its place."""
    text = "locks.provider = 'zookeeper'\n[locks.zookeeper]\nurl = 'zk'\nbase_path = '/a'\n"
    key = written.partition(" ")[0]
    lines = [line for line in text.splitlines() if not line.startswith(f"{key} ")]
    problems = problems_of(read(tmp_path, "\n".join([*lines, written])))
    assert any(f"locks.zookeeper.{key} cannot be" in what for what in problems.values())


def test_what_defaults_break_is_shown_once(tmp_path: Path) -> None:
    """It is not reported again for each entry on top of them."""
    text = "[defaults]\nobjective = '5s'\n[[tables]]\nmatch = 'a'\n[[tables]]\npath = '/b'"
    assert list(problems_of(read(tmp_path, text))) == ["2:1"]


def test_a_named_table_is_checked_with_all_that_matches_it(tmp_path: Path) -> None:
    """Two entries that are right alone may be wrong together."""
    text = """\
        [[tables]]
        match = "/data/*"
        objective = "10m"
        [[tables]]
        path = "/data/a"
        interval = "20m"
        """
    assert list(problems_of(read(tmp_path, text))) == ["6:1"]
    settings_of(tmp_path, text.replace('"/data/a"', '"/other/a"'))


def test_planner_settings_that_are_wrong_together(tmp_path: Path) -> None:
    """A strategy and its regular expression are two keys; where they stand is reported."""
    text = """\
        [defaults.planner]
        hoodie.compaction.strategy = "PartitionRegexBasedCompactionStrategy"
        hoodie.compaction.partition.path.regex = "["
        """
    assert list(problems_of(read(tmp_path, text))) in (["2:19"], ["3:34"])


def test_numbers_that_were_not_given_are_made_to_fit(tmp_path: Path) -> None:
    """Who says how much is cleaned need not know of the archive, and a table may say the rest."""
    settings_of(
        tmp_path, "[defaults.clean]\nretain = 50\n[defaults.planner]\nhoodie.compact.inline.max.delta.commits = '40'"
    )
    text = "[defaults.archive]\nhudi.hoodie.keep.min.commits = 20\n[[tables]]\npath = '/a'\nclean.retain = 20"
    assert list(problems_of(read(tmp_path, text))) == ["2:1"]


def test_an_objective_is_held_against_what_is_said(tmp_path: Path) -> None:
    """The default breaks nothing, nor does a table that is not compacted into bases, nor what just fits."""
    closed = "windows = ['Sat 06:00-07:00']"
    settings_of(tmp_path, f"[defaults]\n{closed}")
    settings_of(tmp_path, f"[defaults]\nobjective = '1h'\ntype = 'log'\n{closed}")
    settings_of(tmp_path, f"[defaults]\nobjective = '1h'\nservices = ['clean']\n{closed}")
    settings_of(tmp_path, "[defaults]\nobjective = '16h'\nwindows = ['daily 22:00-06:00']")
    elapsed = "[defaults.planner]\nhoodie.compact.inline.trigger.strategy = 'TIME_ELAPSED'\n"
    settings_of(tmp_path, f"[defaults]\nobjective = '10h'\n{elapsed}hoodie.compact.inline.max.delta.seconds = '539m'")
    settings_of(
        tmp_path, "[defaults]\nobjective = '10h'\n[defaults.planner]\nhoodie.compact.inline.max.delta.seconds = '20h'"
    )
