"""Noted jars are used while all of them are there, behind those that the environment names, and by one JVM alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.lake import class_archive

PACKAGE = "some:package:1"


def test_jars_are_known_until_one_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path)
    assert class_archive.jars(PACKAGE) == []
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    (tmp_path / "some_package_1.jars").write_text("\n".join(map(str, jars)))
    for jar in jars:
        assert class_archive.jars(PACKAGE) == []
        jar.touch()
    assert class_archive.jars(PACKAGE) == list(map(str, jars))
    assert class_archive.jars("some:package:2") == []
    class_archive.forget(PACKAGE)
    assert class_archive.jars(PACKAGE) == []


def test_an_archive_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path)
    assert class_archive.java_options(PACKAGE) == ""
    (tmp_path / "some_package_1.jsa").touch()
    assert f'"-XX:SharedArchiveFile={tmp_path}/some_package_1.jsa"' in class_archive.java_options(PACKAGE)


@pytest.mark.parametrize("before", [None, "theirs.jar"])
def test_the_class_path_is_as_before_afterwards(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    if before:
        monkeypatch.setenv("SPARK_DIST_CLASSPATH", before)
    with class_archive.class_path(["ours.jar"]):
        inside = os.environ["SPARK_DIST_CLASSPATH"].split(os.pathsep)
    assert inside == ([before] if before else []) + ["ours.jar"]
    assert os.environ.get("SPARK_DIST_CLASSPATH") == before
