import os
from pathlib import Path

import pytest

from headrace.embedded_servers import java
from headrace.embedded_servers.java import JavaMissing, find_java, java_version


def make_java(home: Path, version: str, release: bool = True) -> Path:
    """A Java's home as the finder sees it: a `java` that says its version, and mostly a release file."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "JVM_FOLDER", tmp_path / "jvm")
    return tmp_path


def test_without_java_the_error_says_where_it_looked_and_what_to_do(bare):
    with pytest.raises(JavaMissing, match=r"Java 17 or 21 is needed. Looked at PATH: no Java. Install it: .*JAVA_HOME"):
        find_java()


def test_the_remedy_is_the_machines_own_package_command(bare, monkeypatch):
    program = bare / "bin" / "dnf"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(JavaMissing, match="Install it: sudo dnf install -y java-17-openjdk-headless"):
        find_java()


def test_java_home_comes_first(bare, monkeypatch):
    make_java(bare / "jvm" / "java-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(make_java(bare / "mine", "21.0.2")))
    assert find_java() == java.JavaRuntime(bare / "mine", 21)


def test_a_java_of_another_version_is_passed_over_and_said(bare, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_java(bare / "mine", "25")))
    with pytest.raises(JavaMissing, match=r"JAVA_HOME=.*mine: Java 25; PATH: no Java"):
        find_java()
    make_java(bare / "jvm" / "java-17", "17.0.1")
    assert find_java().home == bare / "jvm" / "java-17"


def test_a_java_on_the_path_is_followed_to_its_home(bare):
    make_java(bare / "opt" / "java", "17.0.9")
    (bare / "bin").mkdir()
    (bare / "bin" / "java").symlink_to(bare / "opt" / "java" / "bin" / "java")
    assert find_java() == java.JavaRuntime(bare / "opt" / "java", 17)


def test_a_java_without_a_release_file_is_asked(tmp_path):
    assert java_version(make_java(tmp_path / "java", "17.0.3", release=False)) == 17


def test_a_folder_without_java_has_no_version(tmp_path):
    assert java_version(tmp_path) is None
