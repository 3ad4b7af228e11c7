"""The class-data archive of the Spark driver: with it a driver starts in about half the time and half the CPU.

Java checks the archive against its class path (folders, sizes and times of all jars) and goes without it where they
differ. So the path below is a key of what Java checks, and a missing file is a slower start, nothing else.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyspark

QUIET_OPTIONS = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")  # else Java warns on stdout of an archive that does not fit


def driver_class_path(jars: Sequence[Path]) -> str:
    """The jars as they follow Spark's own on the driver's class path: archived classes must be found there."""
    return ":".join(map(str, jars))


def java_home() -> Path | None:
    """The Java that `spark-submit` starts: of JAVA_HOME, else of the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home)
    java = shutil.which("java")
    return Path(java).resolve().parent.parent if java else None


def class_archive_path(jars: Sequence[Path]) -> Path | None:
    """Where the archive for these jars, this Spark and this Java belongs; None where it cannot be known."""
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
    """What Java is told to start from the archive, where there is one."""
    archive = class_archive_path(jars)
    return [f"-XX:SharedArchiveFile={archive}", *QUIET_OPTIONS] if archive is not None and archive.is_file() else []
