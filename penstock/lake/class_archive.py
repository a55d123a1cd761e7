"""Spark's and Delta's classes in a file that a JVM maps, instead of finding and checking each of them at every start.

`make setup` makes it once, beside the packages: `python -m penstock.lake.class_archive`. It only saves time. A JVM of
another version, or one that meets other jars, ignores it; without it, Spark looks for Delta's jar and starts as ever.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

_FOLDER = Path(sys.prefix) / "spark-classes"
_SILENT = "-Xlog:cds*=off -Xlog:class+path=off"  # an archive that does not fit is no message of ours


def note_jars(spark: SparkSession, package: str) -> None:
    """Where the jars of `package` lie that this session was started with."""
    jars = spark.sparkContext.getConf().get("spark.jars", "").split(",")
    _FOLDER.mkdir(exist_ok=True)
    _jars_of(package).write_text("\n".join(jar.removeprefix("file://") for jar in jars))


def forget(package: str) -> None:
    """The next session looks for the jars again."""
    _archive_of(package).unlink(missing_ok=True)
    _jars_of(package).unlink(missing_ok=True)


def jars(package: str) -> list[str]:
    """The jars of `package`; none if they were not noted, or are not all there any more."""
    noted = _jars_of(package)
    found = noted.read_text().split("\n") if noted.exists() else []
    return found if all(Path(jar).is_file() for jar in found) else []


def java_options(package: str) -> str:
    archive = _archive_of(package)
    return f'"-XX:SharedArchiveFile={archive}" {_SILENT}' if archive.exists() else ""


@contextmanager
def class_path(jars: Sequence[str]) -> Iterator[None]:
    """For a JVM that is started in it: behind Spark's own jars, as those of a package are."""
    name = "SPARK_DIST_CLASSPATH"
    before = os.environ.get(name)
    if jars:
        os.environ[name] = os.pathsep.join([*([before] if before else []), *jars])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def make(package: str) -> None:
    """Of the classes that a first publish loads, by a JVM that ends with it."""
    from penstock.lake.session import start

    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        made = Path(folder) / "classes.jsa"
        _publish_something(start(Path(folder), java_options=f'"-XX:ArchiveClassesAtExit={made}" {_SILENT}'), folder)
        jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
        jvm.stdin.close()
        jvm.wait()
        made.replace(_archive_of(package))


def _publish_something(spark: SparkSession, folder: str) -> None:
    from delta.tables import DeltaTable

    path = f"{folder}/t"
    spark.range(9).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    merge = DeltaTable.forPath(spark, path).alias("t").merge(spark.range(3).alias("s"), "t.id = s.id")
    merge.whenMatchedDelete("s.id = 1").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    spark.read.format("delta").load(path).groupBy("id").count().toArrow()
    spark.stop()


def _jars_of(package: str) -> Path:
    return _FOLDER / f"{package.replace(':', '_')}.jars"


def _archive_of(package: str) -> Path:
    return _FOLDER / f"{package.replace(':', '_')}.jsa"


if __name__ == "__main__":
    from penstock.lake.session import DELTA_PACKAGE

    make(DELTA_PACKAGE)
