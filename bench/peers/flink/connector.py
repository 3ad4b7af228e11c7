"""Flink's Kafka connector: one jar from Maven, locked by its SHA-256, in the cache of Headrace's jars."""

from pathlib import Path

from bench.errors import Skipped
from headrace.embedded_servers.download import Download, DownloadFailed, fetch_file, sha256_of
from headrace.embedded_servers.jars import Jar, cache_dir
from headrace.embedded_servers.maven import maven_repository

CONNECTOR = Jar(
    group="org.apache.flink",
    artifact="flink-sql-connector-kafka",
    version="5.0.0-2.2",
    sha256="5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
    size=10_666_527,
)


def connector() -> Path:
    """Where the jar is; fetched where it is not there yet."""
    path = cache_dir() / CONNECTOR.file_name
    if path.is_file() and sha256_of(path) == CONNECTOR.sha256:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        address = maven_repository() + CONNECTOR.repository_path
        fetch_file(Download(address, path, CONNECTOR.sha256, CONNECTOR.size), lambda _bytes: None)
    except DownloadFailed as failure:
        raise Skipped(f"Flink's Kafka connector {CONNECTOR} cannot be had: {failure}") from failure
    return path
