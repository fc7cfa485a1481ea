"""The Spark session in which released Hudi writes and reads: one for a process, kept small.

Used by the interop tests, the demo and the benchmark.

Touches: starts a JVM; the first time on a machine Spark fetches the Hudi bundle through `spark.jars.packages`, and from
         then on finds it in the folder where that left it.
Keeps:   1. instants are named in UTC, or in another `zone`, whatever the machine has: the default zone of the JVM is
            set, not only that of Spark;
         2. `HudiMissing` says that the bundle cannot be had here; every other failure is a failure.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakeward.engine.dispatch.java import ensure_java
from lakeward.engine.dispatch.spark_session import WORKERS_MODULE
from tests.hudi.hfile_java import java_object

HUDI_VERSION = "1.2.0"
OLDEST_VERSION = "1.1.1"
"""The oldest release for table version 9 whose bundle can be fetched; 1.1.0 cannot."""
OLDEST_VERSION_OF_8 = "1.0.2"
"""The oldest release whose tables of version 8 we promise to be readable by it afterwards."""
OLDEST_VERSION_OF_6 = "0.15.0"
"""The same of version 6."""


HADOOP_DEFAULTS = Path(__file__).with_name("hadoop_defaults")
"""The defaults of MapReduce and YARN, emptied: neither runs here, they were two thirds of Hadoop's settings, and Hudi
sends all settings along with each task."""


class HudiMissing(Exception):
    """Spark with the Hudi bundle does not start here, most likely because the bundle cannot be fetched."""


def start_spark(
    *,
    scratch: Path,
    memory: str = "2g",
    at_full_speed: bool = False,
    version: str = HUDI_VERSION,
    zone: str = "UTC",
    cores: int = 2,
    class_path: Path | None = None,
) -> SparkSession:
    """A local session with Hudi on it. Spark and Derby leave their droppings in `scratch`.

    Compiling Hudi's code costs more than a suite of tiny tables gains from it, so the JVM's optimising compiler is off
    unless `at_full_speed`. What else is cheaper for tiny tables is so unless `at_full_speed`, too: a bundle that is on
    the class path before Spark's own jars is not searched for in each of them, nor by each Python worker.

    Args:
        class_path: a folder whose resources come before the bundle's.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ensure_java()
    _end_jvm_that_was_left()
    java_options = f"-Duser.timezone={zone} -Dderby.system.home={scratch}"
    # Hudi's bloom index by the metadata table sends a lock to tasks, which Java 17 keeps its fields to itself of.
    java_options += " --add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
    settings = {}
    if not at_full_speed:
        # Room for young objects and for classes, since each collection that makes some is of a JVM at its start.
        java_options += " -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmn300m -XX:MetaspaceSize=256m"
        # Classes of released jars need no proof of their bytecode; the sizes of objects no debugger beside this JVM.
        java_options += " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
        java_options += " -Djol.skipHotspotSAAttach=true -Djol.skipDynamicAttach=true"
        settings = {
            # Projections of a few rows are interpreted. Whole stages stay compiled: without them Spark would read
            # Parquet row by row, which is not how its users read what we wrote.
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.cache.maxEntries": "2000",
            "spark.python.daemon.module": WORKERS_MODULE,
        }
    log4j = Path(__file__).with_name("log4j2.properties")
    builder = SparkSession.builder.master(f"local[{cores}]").appName("hudi")
    for key, value in {
        **settings,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"{java_options} -Dlog4j2.configurationFile=file:{log4j}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    with _bundle(version, at_full_speed=at_full_speed) as bundle:
        for key, value in bundle.items():
            is_path = class_path is not None and key == "spark.driver.extraClassPath"
            builder = builder.config(key, f"{class_path}{os.pathsep}{value}" if is_path else value)
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            # The launcher's own words (an unresolved dependency, most often) are on standard error already.
            raise HudiMissing(f"Spark did not start with Hudi {version}: {error}") from error
    if not at_full_speed:
        _leave_permissions_alone(session)
    return session


def _leave_permissions_alone(session: SparkSession) -> None:
    """Files of a table have the permissions of any new file, and Hadoop starts no process for each to say so once more:
    a sixth of the processor time of a small write, a quarter of its duration."""
    conf = session.sparkContext._jsc.hadoopConfiguration()
    java_object(session, "BareFiles", "org.apache.hadoop.fs.FileSystem").install(conf)
    opened = session._jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf).getRawFileSystem()  # type: ignore[union-attr]
    assert opened.getClass().getName() == "BareFiles", "what this JVM opens are still Hadoop's own"


def _end_jvm_that_was_left() -> None:
    """That of a driver which stopped: a session that is started in it has its class path, and no bundle on that."""
    gateway = SparkContext._gateway
    if gateway is None or SparkContext._active_spark_context is not None:
        return
    gateway.shutdown()
    gateway.proc.kill()  # type: ignore[union-attr]  # PySpark puts it there
    gateway.proc.wait()  # type: ignore[union-attr]
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _bundle(version: str, *, at_full_speed: bool) -> Iterator[dict[str, str]]:
    """The settings by which Spark starts with the bundle. Where it must be fetched first, no other process fetches
    meanwhile: Ivy ends the second of two that fill its folder at once."""
    name = "hudi-spark3.5-bundle_2.12"
    ivy = Path.home() / ".ivy2"
    # Ivy puts the file there whole or not at all.
    fetched = ivy / "cache" / "org.apache.hudi" / name / "jars" / f"{name}-{version}.jar"
    with ExitStack() as stack:
        if not fetched.exists():
            ivy.mkdir(exist_ok=True)
            lock = stack.enter_context((ivy / "fetching.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not fetched.exists():
            yield {"spark.jars.packages": f"org.apache.hudi:{name}:{version}"}
        elif at_full_speed:
            yield {"spark.jars": str(fetched)}
        else:
            yield {"spark.driver.extraClassPath": f"{HADOOP_DEFAULTS}{os.pathsep}{fetched}"}
