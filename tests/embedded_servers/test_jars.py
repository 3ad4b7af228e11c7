import fcntl
import hashlib
import http.server
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.embedded_servers import jars
from headrace.embedded_servers.download import Download, DownloadFailed, fetch_file
from headrace.embedded_servers.jars import Jar, JarUnavailable, jar_paths, locked_jars
from headrace.embedded_servers.maven import MavenRepositoryMissing, maven_repository, read_ivy_central, read_mirror
from tests.waiting import patiently, wait_until

CONTENT = bytes(range(256)) * 2000


@dataclass
class Repository:
    """A Maven repository on loopback; it can break off after some bytes and counts what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    break_after: list[int] = field(default_factory=list)
    ranges: bool = True
    authorization: str | None = None
    url: str = ""


def handler_of(repository: Repository) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            repository.asked.append((self.path, wanted))
            repository.authorization = self.headers.get("Authorization")
            content = repository.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and repository.ranges else 0
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            until = start + repository.break_after.pop(0) if repository.break_after else len(content)
            self.wfile.write(content[start:until])

        def log_message(self, *_args: object) -> None:
            pass

    return Handler


@pytest.fixture
def repository():
    repository = Repository()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(repository))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_port}"
    yield repository
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def one_jar(repository, monkeypatch, tmp_path):
    """A lock file of one jar, an empty cache, and the repository that has the jar."""
    jar = Jar("org.example", "thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    repository.files[f"/{jar.repository_path}"] = CONTENT
    monkeypatch.setenv("HEADRACE_MAVEN", repository.url)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "locked_jars", lambda _set_name: (jar,))
    return jar


def test_a_missing_jar_is_fetched_once_and_then_taken_from_the_cache(one_jar, repository, tmp_path):
    assert jar_paths("spark") == [tmp_path / "jars" / "thing-1.0.jar"]
    assert (tmp_path / "jars" / "thing-1.0.jar").read_bytes() == CONTENT
    jar_paths("spark")
    assert len(repository.asked) == 1


def test_a_download_that_breaks_off_goes_on_where_it_was(one_jar, repository):
    repository.break_after = [100_000, 150_000]
    assert jar_paths("spark")[0].read_bytes() == CONTENT
    assert [wanted for _path, wanted in repository.asked] == [None, "bytes=100000-", "bytes=250000-"]


def test_a_part_of_an_earlier_run_is_not_fetched_again(one_jar, repository, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "thing-1.0.jar.part").write_bytes(CONTENT[:300_000])
    assert jar_paths("spark")[0].read_bytes() == CONTENT
    assert repository.asked[0][1] == "bytes=300000-"


def test_a_server_without_ranges_sends_it_from_the_start(one_jar, repository):
    repository.ranges, repository.break_after = False, [100_000]
    assert jar_paths("spark")[0].read_bytes() == CONTENT


def test_a_broken_part_is_thrown_away_and_fetched_whole(one_jar, repository, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "thing-1.0.jar.part").write_bytes(b"rubbish")
    assert jar_paths("spark")[0].read_bytes() == CONTENT
    assert [wanted for _path, wanted in repository.asked] == ["bytes=7-", None]


def test_a_broken_jar_in_the_cache_is_said_and_fetched_again(one_jar, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "thing-1.0.jar").write_bytes(b"x" * len(CONTENT))
    said: list[str] = []
    assert jar_paths("spark", said.append)[0].read_bytes() == CONTENT
    assert any("thing-1.0.jar is not what the lock file says" in line for line in said)


def test_a_jar_that_is_not_to_be_had_is_named_with_what_to_do(one_jar, repository, tmp_path):
    repository.files.clear()
    with pytest.raises(JarUnavailable) as raised:
        jar_paths("spark")
    message = str(raised.value)
    assert message.startswith("org.example:thing:1.0 is not to be had.")
    assert "404" in message
    assert "HEADRACE_MAVEN" in message
    assert str(tmp_path / "jars" / "thing-1.0.jar") in message
    assert len(repository.asked) == 1


def test_a_jar_with_another_sha_is_never_put_in_place(one_jar, repository, tmp_path):
    repository.files[f"/{one_jar.repository_path}"] = bytes(len(CONTENT))
    with pytest.raises(JarUnavailable, match="its SHA-256 is"):
        jar_paths("spark")
    assert not (tmp_path / "jars" / "thing-1.0.jar").exists()


def test_an_unreachable_repository_is_named_without_its_password(one_jar, monkeypatch):
    monkeypatch.setenv("HEADRACE_MAVEN", "http://me:secret@127.0.0.1:9")
    with pytest.raises(JarUnavailable, match=r"http://127\.0\.0\.1:9/.*the connection failed") as raised:
        jar_paths("spark")
    assert "secret" not in str(raised.value)


def test_a_repository_with_a_password_is_asked_with_it(one_jar, repository, monkeypatch):
    monkeypatch.setenv("HEADRACE_MAVEN", repository.url.replace("//", "//me:a%20b@"))
    jar_paths("spark")
    assert repository.authorization == "Basic bWU6YSBi"


def test_a_cache_that_cannot_be_written_is_said(one_jar, tmp_path):
    (tmp_path / "jars").write_text("a file, not a folder")
    with pytest.raises(JarUnavailable, match="HEADRACE_CACHE"):
        jar_paths("spark")


def test_a_file_that_is_too_long_is_refused(repository, tmp_path):
    repository.files["/thing"] = CONTENT + b"more"
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(DownloadFailed, match="its SHA-256 is"):
        fetch_file(Download(f"{repository.url}/thing", tmp_path / "thing", sha256, len(CONTENT)), lambda _count: None)


TWO_AT_ONCE = """
import sys
from headrace.embedded_servers import jars
jars.locked_jars = lambda _set: (jars.Jar("org.example", "thing", "1.0", sys.argv[1], int(sys.argv[2])),)
print(jars.jar_paths("spark")[0])
"""


def test_two_processes_at_once_fetch_it_once(one_jar, repository):
    command = [sys.executable, "-c", TWO_AT_ONCE, one_jar.sha256, str(one_jar.size)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=patiently(60))[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert Path(paths.pop()).read_bytes() == CONTENT
    assert len(repository.asked) == 1


def test_a_process_waits_while_another_holds_the_cache(one_jar, tmp_path):
    (tmp_path / "jars").mkdir()
    said: list[str] = []
    with (tmp_path / "jars" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=jar_paths, args=("spark", said.append))
        waiting.start()
        wait_until(lambda: any("waiting for it" in line for line in said), limit_s=10, what="the second to wait")
        assert not (tmp_path / "jars" / "thing-1.0.jar").exists()
    waiting.join(patiently(30))
    assert (tmp_path / "jars" / "thing-1.0.jar").read_bytes() == CONTENT


def test_the_lock_file_has_every_set_with_whole_hashes():
    every = {*locked_jars("spark"), *locked_jars("broker"), *locked_jars("connect")}  # sets may share a jar
    assert len(locked_jars("spark")) == 6
    assert len(locked_jars("connect")) == 70
    assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in every)
    names = [jar.file_name for jar in every]
    assert len(set(names)) == len(names), "two jars would share a place in the cache"


def test_the_root_is_the_setting_then_mavens_mirror_then_what_spark_uses(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_MAVEN", "http://mine.example/repo")
    assert maven_repository() == "http://mine.example/repo/"
    monkeypatch.delenv("HEADRACE_MAVEN")
    assert maven_repository().startswith("https://")
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    settings.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>'
        "<mirror><mirrorOf>other</mirrorOf><url>http://no.example</url></mirror>"
        "<mirror><mirrorOf>*, !central</mirrorOf><url>http://no.example</url></mirror>"
        "<mirror><mirrorOf>central</mirrorOf><url> http://mirror.example/maven </url></mirror>"
        "</mirrors></settings>"
    )
    assert maven_repository() == "http://mirror.example/maven/"


def test_settings_that_are_not_xml_are_said(tmp_path):
    settings = tmp_path / "settings.xml"
    settings.write_text("<settings>")
    with pytest.raises(MavenRepositoryMissing, match=r"settings\.xml is not XML"):
        read_mirror(settings)


def test_without_ivy_there_is_no_root(tmp_path):
    assert read_ivy_central(tmp_path) is None
    assert read_ivy_central(None) is None


def test_an_archive_is_named_by_its_classifier_and_ending():
    (archive,) = locked_jars("registry")
    assert archive.repository_path == ("io/apicurio/apicurio-registry-app/3.3.3/apicurio-registry-app-3.3.3-all.tar.gz")
    assert str(archive) == "io.apicurio:apicurio-registry-app:3.3.3"
