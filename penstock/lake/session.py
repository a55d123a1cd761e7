"""The Spark session penstock makes when it is not given one, and the settings every query of ours relies on.

`python -m penstock.lake.session` starts it once, so that Spark resolves the Delta jar before the first real run.
Where the jar lies is noted, and later starts do not ask for it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock import priority
from penstock.errors import ConfigError
from penstock.lake import class_archive

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

# What answers depend on: set on the session of each of our queries, also on one that was given to us.
SEMANTICS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",  # exact, or an error; never rounded to fit
    "spark.sql.caseSensitive": "true",  # PostgreSQL may have both "a" and "A"
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, the default, has too small a range
}

# What only speed depends on. 50 tasks to read a small Delta log is Delta's default.
_TUNING = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.enableVectorizedReader": "true",
}

_STARTUP = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.buffer.pageSize": "4m",  # each join of a plan takes a page; 64 MB, as Spark would choose, are soon too many
    "spark.sql.codegen.cache.maxEntries": "5000",  # a view's delta is some thirty classes; 1,000 is the default
    "spark.scheduler.mode": "FAIR",  # a refresh does not queue behind the tasks of a publish
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.maxResultSize": "0",
    "spark.log.level": "ERROR",
}


def start(home: Path | None = None, *, memory: str = "2g", java_options: str | None = None) -> SparkSession:
    """A local session with Delta, quiet on the console, keeping its scratch files out of the working folder."""
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    if not java:
        raise ConfigError("Spark needs Java 17 or newer, and none was found", hint="Install a JDK, or set JAVA_HOME.")
    cores = os.cpu_count() or 2
    builder = SparkSession.builder.master(f"local[{cores}]").appName("penstock")
    settings = {
        **_STARTUP,
        **_TUNING,
        **SEMANTICS,
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
    }
    if options := java_options or class_archive.java_options(DELTA_PACKAGE):
        settings["spark.driver.defaultJavaOptions"] = options
    jars = class_archive.jars(DELTA_PACKAGE)
    if not jars:
        settings["spark.jars.packages"] = DELTA_PACKAGE
    if home is not None:
        settings["spark.sql.warehouse.dir"] = str(home / "warehouse")
    for name, value in settings.items():
        builder = builder.config(name, value)
    log = (home / "logs" if home is not None else Path(tempfile.mkdtemp(prefix="penstock-"))) / "spark.log"
    with _stderr_in(log), class_archive.class_path(jars):
        ours = SparkContext._gateway is None
        try:
            made = builder.getOrCreate()
        except (PySparkRuntimeError, OSError) as error:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise ConfigError(
                f"Spark did not start: {error}\n{last}", hint=f"Java 17 or newer is needed. Its output is in {log}."
            ) from error
    gateway = SparkContext._gateway
    if ours and gateway is not None and gateway.proc is not None:  # else it was started by somebody else
        priority.put_behind(gateway.proc.pid)
    return made


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """The JVM inherits this process's stderr when it starts, and keeps it: give it a file, not the terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def adopt(spark: SparkSession) -> SparkSession:
    """A session of our own beside the caller's: same cluster and cache, our semantics, their settings untouched."""
    ours = spark.newSession()
    for name, value in {**_TUNING, **SEMANTICS}.items():
        ours.conf.set(name, value)
    return ours


# Of queries over a few thousand rows, planning is most of the cost: they are planned once and not again at every stage,
# without filters made up from other filters, and without rules that find nothing in a query (Delta's is for its own
# MERGE; it took a third of the optimizer's time).
_SMALL_QUERIES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.delta.metric.OptimizeConditionalIncrementMetric,"
    "org.apache.spark.sql.catalyst.optimizer.OptimizeOneRowRelationSubquery",
}


def small_queries(spark: SparkSession) -> SparkSession:
    """A session for queries over a few thousand rows."""
    session = adopt(spark)
    for name, value in _SMALL_QUERIES.items():
        session.conf.set(name, value)
    return session


def in_pool(spark: SparkSession, pool: str) -> None:
    """The jobs of this thread share Spark's cores fairly with those of other pools; not known to a remote Spark."""
    if not is_remote():
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def tagged(spark: SparkSession, tag: str) -> None:
    """The jobs of this thread can be cancelled together."""
    if not is_remote():
        spark.sparkContext.addJobTag(tag)


def cancel(spark: SparkSession, tag: str) -> None:
    if not is_remote():
        spark.sparkContext.cancelJobsWithTag(tag)


def quoted(name: str) -> str:
    """A name as Spark SQL reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def main() -> None:
    class_archive.forget(DELTA_PACKAGE)
    session = start()
    session.range(1).collect()
    class_archive.note_jars(session, DELTA_PACKAGE)
    session.stop()
    print(f"Spark {session.version} with {DELTA_PACKAGE} is ready.", file=sys.stderr)


if __name__ == "__main__":
    main()
