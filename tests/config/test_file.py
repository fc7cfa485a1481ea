"""Layers, origins, and problems that say where, what, why and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import ConfigurationError
from lakeward.config.file import _RETIRED, ConfigProblem, load_settings, read_config
from tests.config.config_files import problems_of, read, settings_of, write

UPGRADE = (Path(__file__).parents[2] / "docs/operate/upgrade.md").read_text()


def test_flags_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    """The order in which a value is looked for; each says where it came from."""
    reading = read(
        tmp_path,
        """
        [service]
        jobs_max = 3
        log_level = "debug"
        grace = "3s"
        """,
        {
            "LAKEWARD__SERVICE__LOG_LEVEL": "info",
            "LAKEWARD__SERVICE__GRACE": "4s",
            "LAKEWARDS": "x",
            "LAKEWARD_CONFIG": "y",
        },
        {"service.grace": "5s"},
    )
    assert reading.settings is not None
    service = reading.settings.service
    assert (service.name, service.jobs_max, service.log_level, service.grace) == ("lakeward", 3, "info", 5)
    assert reading.origins["service", "jobs_max"].where == f"{tmp_path}/lakeward.toml:3:1"
    assert reading.origins["service", "log_level"].where == "LAKEWARD__SERVICE__LOG_LEVEL"
    assert reading.origins["service", "grace"].where == "--set service.grace"
    assert ("service", "name") not in reading.origins


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("SERVICE__JOBS_MAX", "4", 4),
        ("SERVICE__NAME", "4", "4"),
        ("SERVICE__NAME", "true", "true"),
        ("SERVICE__IO_PER_HOUR", "2GiB", 2**31),
        ("SERVICE__IO_PER_HOUR", "1000", 1000),
        ("SERVICE__GROUPS", "{ a = 1 }", {"a": 1}),
        ("DEFAULTS__VERIFY", "false", False),
        ("DEFAULTS__INTERVAL", "2h", 7200.0),
        ("DEFAULTS__WINDOWS", "['daily 01:00-02:00']", ("daily 01:00-02:00",)),
        ("DEFAULTS__TYPE", "full", "full"),
        ("DISCOVERY__ROOTS", '["/data"]', ("/data",)),
        ("LOCKS__EXPIRE", "5m", 300.0),
        ("SPARK__CONF", "{ spark.executor.memory = '2g' }", {"spark.executor.memory": "2g"}),
    ],
)
def test_values_of_the_environment(name: str, text: str, value: object) -> None:
    """Text where the key takes text, else as in TOML."""
    settings = read_config(None, {f"LAKEWARD__{name}": text}).settings
    assert settings is not None
    section, key = name.lower().split("__")
    assert getattr(getattr(settings, section), key) == value


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("SERVICE__JOBS_MAX=none", "service.jobs_max cannot be"),
        ("SERVICE__JOBS_MAX=1\nx=2", "service.jobs_max cannot be"),
        ("SERVICE__JOBS=1", "no key service.jobs"),
        ("SERVICE=1", "service is a section"),
        ("SERVCE__TICK=1s", "no section servce"),
        ("TABLES=[]", "[[tables]] cannot be set here"),
        ("SPARK__CONF__X=1", "spark.conf.x is no key"),
        ("=1", "no section"),
    ],
)
def test_wrong_words_of_the_environment(name: str, what: str) -> None:
    """The error names the variable."""
    key, _, value = name.partition("=")
    (problem,) = read_config(None, {f"LAKEWARD__{key}": value}).problems
    assert problem.where == f"LAKEWARD__{key}"
    assert what in problem.what


def test_tables_of_keys_are_merged_over_the_layers(tmp_path: Path) -> None:
    """Each key knows its own origin; everything else is replaced as a whole."""
    reading = read(
        tmp_path,
        """
        spark.conf.spark.a = 1
        spark.conf."spark.b" = 1
        discovery.roots = ["/a", "/b"]
        """,
        {"LAKEWARD__SPARK__CONF": "{ spark.b = 2 }", "LAKEWARD__DISCOVERY__ROOTS": "['/c', 'd']"},
    )
    assert problems_of(reading) == {"LAKEWARD__DISCOVERY__ROOTS": 'discovery.roots[2] cannot be "d".'}
    assert reading.origins["spark", "conf", "spark.a"].where.endswith(":2:18")
    assert reading.origins["spark", "conf", "spark.b"].where == "LAKEWARD__SPARK__CONF"


def test_a_layer_adds_to_a_table_of_keys(tmp_path: Path) -> None:
    """What it does not name stays as the layer below has it."""
    environ = {"LAKEWARD__SPARK__CONF": "{ b = 2 }", "LAKEWARD__DEFAULTS__PLANNER": "{ planner.log_ratio = 2 }"}
    settings = settings_of(tmp_path, "spark.conf = { a = 1, b = 1 }", environ)
    assert settings.spark.conf == {"a": "1", "b": "2"}
    assert settings.defaults.planner == {"planner.log_ratio": "2"}


def test_everything_that_is_wrong_is_shown_at_once(tmp_path: Path) -> None:
    """Wrong values, unknown keys and broken rules, in the order of the file, each where it stands."""
    reading = read(
        tmp_path,
        """\
        listen = "x"
        [servce]
        [service]
        jobs_max = 0
        listn = ":1"
        groups = { "a b" = 1, nightly = 2 }
        [state]
        url = "mysql://h/d"
        [defaults]
        windows = ["daily 01:00-02:00", "never"]
        objective = "5s"
        services = ["compaction", "verify"]
        group = "nihgtly"
        planner = { "hoodie.compaction.target.io" = "lots", 'planner.log_ration' = 1 }
        locks = { writers = "stopped" }
        [[tables]]
        match = "*"
        interval = true
        [[tables]]
        name = "b"
        [[tables]]
        path = "data"
        intervall = "5s"
        """,
    )
    assert problems_of(reading) == {
        "1:1": "There is no key listen outside of the sections.",
        "2:2": "There is no section servce.",
        "4:1": "service.jobs_max cannot be 0.",
        "5:1": "There is no key service.listn.",
        "6:12": 'service.groups.a b cannot be "a b".',
        "8:1": "state.url names no store that is known.",
        "10:33": 'defaults.windows[2] cannot be "never".',
        "11:1": "An objective of 5s is shorter than interval, 10s.",
        "12:27": 'defaults.services[2] cannot be "verify".',
        "13:1": "There is no group nihgtly.",
        "14:13": "hoodie.compaction.target.io cannot be 'lots'.",
        "14:53": "There is no setting planner.log_ration.",
        "15:1": "[defaults] has no locks.",
        "18:1": "tables[1].interval cannot be true.",
        "19:1": "This entry of [[tables]] says of no table that it is meant.",
        "22:1": 'tables[3].path cannot be "data".',
        "23:1": "There is no key tables[3].intervall.",
    }
    places = [tuple(map(int, problem.where.split(":")[-2:])) for problem in reading.problems]
    assert places == sorted(places)
    assert all(problem.why and problem.remedy for problem in reading.problems)


def test_a_key_of_before_names_what_to_write(tmp_path: Path) -> None:
    """Wherever it comes from: nothing that was meant by it is left out in silence."""
    path = tmp_path / "lakeward.toml"
    path.write_text('[spark]\nlocal_below = "1GiB"\n')
    reading = read_config(path, {"LAKEWARD__SPARK__LOCAL_BELOW": "0"}, {"spark.local_below": "0"})
    assert reading.settings is None
    assert {problem.where for problem in reading.problems} == {
        f"{path}:2:1",
        "LAKEWARD__SPARK__LOCAL_BELOW",
        "--set spark.local_below",
    }
    for problem in reading.problems:
        assert problem.what == "There is no key spark.local_below any more."
        assert problem.remedy == 'Take it out. Write engine = "auto", "spark" or "local" under [service].'


@pytest.mark.parametrize("place", sorted(_RETIRED), ids=".".join)
def test_each_retired_key_names_what_takes_its_place(tmp_path: Path, place: tuple[str, ...]) -> None:
    """In its section, and in an entry of [[tables]]; it is no key, nor one of another section."""
    section, key = (f"[{'.'.join(place[:-1])}]", place[-1]) if place[0] != "tables" else ("", ".".join(place[1:]))
    text = f"{section}\n{key} = 1\n" if section else f'[[tables]]\nmatch = "*"\n{key} = 1\n'
    (problem,) = read(tmp_path, text).problems
    shown = ".".join(place).replace("tables.", "tables[1].")
    assert problem.what == f"There is no key {shown} any more."
    assert problem.remedy == f"Take it out. {_RETIRED[place]}"
    assert (
        place[0] == "tables"
        or place == ("spark", "local_below")
        or f"| `{'.'.join(place)}` | {_RETIRED[place]} |" in UPGRADE
    )


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("[service]\njobs-max = 1", "Did you mean jobs_max?"),
        ("[defaults]\nlisten = 'x'", "There is one of that name in [service]."),
        ("[locks]\nwriters = 'stoped'", "Did you mean stopped?"),
        ("[defaults.planner]\nplanner.log_ration = 1", "Did you mean planner.log_ratio?"),
        ("[[table]]\nname = 'x'", "Did you mean tables?"),
        ("[[overrides]]\nname = 'x'", "Did you mean [[tables]]?"),
        ("[overrides]\ninterval = '5m'", "Did you mean [[tables]]?"),
        ("[jobs]\nmax = 3", "Did you mean service.jobs_max?"),
        ("[defaults]\nservices = ['compation']", "Did you mean compaction?"),
    ],
)
def test_suggestions(tmp_path: Path, text: str, suggestion: str) -> None:
    """What was probably meant."""
    (problem,) = read(tmp_path, text).problems
    assert problem.why == suggestion


def test_a_wrong_value_hides_no_rule_and_breaks_none(tmp_path: Path) -> None:
    """Rules are asked of what is right, never of a default that stands in for what is wrong."""
    wrong = '[service]\ngrace = "soon"\n[defaults]\ninterval = "often"\nobjective = "5s"\nmemory = "5GiB"'
    assert problems_of(read(tmp_path, wrong)) == {
        "2:1": 'service.grace cannot be "soon".',
        "4:1": 'defaults.interval cannot be "often".',
        "6:1": "memory, 5GiB, is more than all operations together may hold, 2GiB.",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"[service]\nname = lakeward", "2:8"),
        (b"[service]\nname = 'a'\nname = 'b'", "3:11"),
        (b"[service\n", "1:9"),
        (b'[service]\nname = "', "2:9"),
        (b"[service]\nname = '\xff'", "2:9"),
        (b"a = " + b"[" * 20000, "1:1"),
    ],
)
def test_what_is_not_toml(tmp_path: Path, text: bytes, place: str) -> None:
    """Is reported with the line and column where it stops being it."""
    path = tmp_path / "lakeward.toml"
    path.write_bytes(text)
    (problem,) = read_config(path, {}).problems
    assert problem.where == f"{path}:{place}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is a problem like any other."""
    (problem,) = read_config(tmp_path / "none.toml", {}).problems
    assert "cannot be read" in problem.what
    assert "No such file" in problem.why


@pytest.mark.parametrize(
    "text", ["service = 1", "tables = 1", "tables = [1]", "[tables]\nmatch = 'x'", "defaults = []"]
)
def test_the_wrong_shape(tmp_path: Path, text: str) -> None:
    """A section is a table and tables are many, said once and without a crash."""
    assert len(problems_of(read(tmp_path, text))) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[state]\nurl = 'postgresql://u:hunter2@h/d'", "2:1"),
        ("[state]\nurl = 'postgresql://u:hun/ter2@h/d'", "2:1"),
        ("[state]\nurl = 'postgresql://h/d?user=u&password=hunter2'", "2:1"),
        ("[spark]\nremote = 'sc://h:15002/;token=hunter2'", "2:1"),
        ("[spark.conf]\nspark.hadoop.fs.s3a.secret.key = 'hunter2'", "2:28"),
        ("[state]\nurl = ['hunter2']", "2:1"),
        ("[spark.conf]\n'a.password' = ['hunter2']", "2:1"),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_shown(tmp_path: Path, text: str, place: str) -> None:
    """It comes from a file of its own or from the environment; the problem names the key and hides the value."""
    reading = read(tmp_path, text)
    assert list(problems_of(reading)) == [place]
    assert "hunter2" not in str(reading.problems[0])


def test_what_is_no_secret(tmp_path: Path) -> None:
    """A URL without a password and the place of a secret may stand in the file."""
    text = """
        state.url = "postgresql://lakeward@database:5432/lakeward"
        spark.remote = "sc://host:15002"
        spark.conf."spark.hadoop.fs.s3a.aws.credentials.provider" = "x"
        spark.conf."spark.kubernetes.authenticate.oauthTokenFile" = "/x"
        """
    assert settings_of(tmp_path, text).state.url is not None


def test_secrets_from_the_environment() -> None:
    """Are taken, and a problem beside them does not show them."""
    environ = {
        "LAKEWARD__STATE__URL": "postgresql://u:hunter2@h/d",
        "LAKEWARD__SPARK__CONF": "{ a.password = 'hunter2' }",
    }
    settings = read_config(None, environ).settings
    assert settings is not None
    assert settings.store_url == "postgresql://u:hunter2@h/d"
    problems = read_config(None, environ | {"LAKEWARD__STATE__URL": "mysql://u:hunter2@h/d"}).problems
    assert "hunter2" not in str(problems)
    assert len(problems) == 1


def test_the_url_from_its_own_file(tmp_path: Path) -> None:
    """The file is relative to the configuration; what a later layer says goes first; both in one layer are refused."""
    (tmp_path / "url").write_text("postgresql://u:p@h/d\n")
    assert settings_of(tmp_path, "state.url_file = 'url'").store_url == "postgresql://u:p@h/d"
    later = {"LAKEWARD__STATE__URL": "postgresql://other/d"}
    assert settings_of(tmp_path, "state.url_file = 'url'", later).store_url == "postgresql://other/d"
    later = {"LAKEWARD__STATE__URL_FILE": str(tmp_path / "url")}
    assert settings_of(tmp_path, "state.url = 'sqlite:///x'", later).store_url == "postgresql://u:p@h/d"
    assert list(problems_of(read(tmp_path, "state.url_file = 'url'\nstate.url = 'sqlite:///x'"))) == ["1:7"]


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"mysql://h/d"])
def test_a_url_file_that_holds_no_url(tmp_path: Path, content: bytes | None) -> None:
    """Is reported where it is named."""
    if content is not None:
        (tmp_path / "url").write_bytes(content)
    assert list(problems_of(read(tmp_path, "[state]\nurl_file = 'url'"))) == ["2:1"]


def test_the_raised_error_says_every_problem(tmp_path: Path) -> None:
    """There is one note for each, so that the command line prints them all."""
    path = write(tmp_path, "[service]\njobs_max = 0\ngrace = -1\n")
    with pytest.raises(ConfigurationError, match="2 problems") as raised:
        load_settings(path, {})
    assert [note.split()[0] for note in raised.value.__notes__] == [f"{path}:2:1:", f"{path}:3:1:"]
    assert raised.value.exit_code == 2


def test_a_problem_reads_as_four_lines() -> None:
    """The first line says the place and what is wrong, so that editors and people find it."""
    assert str(ConfigProblem("a.toml:1:2", "What.", "Why.", "Remedy.")) == "a.toml:1:2: What.\n    Why.\n    Remedy."
