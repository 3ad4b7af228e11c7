"""The class data archive of the Spark driver: with it a driver starts in about half the time and half the CPU.

Java checks the archive against its class path (folders, sizes and times of all jars) and ignores it on a
difference. So the path below is a key of what Java checks, and a missing file only makes the start slower.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyspark

QUIET_OPTIONS = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # else Java warns on stdout about a mismatch


def driver_class_path(jars: Sequence[Path]) -> str:
    """The jars in the order of the driver's class path, after Spark's own: archived classes must be found there."""
    return ":".join(map(str, jars))


def java_home() -> Path | None:
    """The Java that `spark-submit` starts: from JAVA_HOME, else from the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home)
    java = shutil.which("java")
    return Path(java).resolve().parent.parent if java else None


def class_archive_path(jars: Sequence[Path]) -> Path | None:
    """The archive file for these jars, this Spark and this Java; None where that is unknown."""
    home = java_home()
    if home is None or not jars:
        return None
    spark_jars = Path(pyspark.__file__).parent / "jars"
    release_file = home / "release"
    key_parts = [
        str(home),
        release_file.read_text(errors="replace") if release_file.is_file() else "",
        f"{spark_jars} {spark_jars.stat().st_mtime_ns if spark_jars.is_dir() else ''}",
        driver_class_path(jars),
    ]
    digest = hashlib.sha256("\n".join(key_parts).encode()).hexdigest()[:16]
    return jars[0].parent.parent / "archives" / f"spark-{digest}.jsa"


def archive_options(jars: Sequence[Path]) -> list[str]:
    """The Java options for starting from the archive, where there is one."""
    archive = class_archive_path(jars)
    return [f"-XX:SharedArchiveFile={archive}", *QUIET_OPTIONS] if archive is not None and archive.is_file() else []
