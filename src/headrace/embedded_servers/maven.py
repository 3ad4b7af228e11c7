"""The Maven repository that this machine is configured to use."""

import os
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

from headrace.errors import HeadraceError

_IVY_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_CENTRAL = re.compile(rb"https://[\w./-]+/maven2/")
_CENTRAL_PATTERNS = {"central", "*", "external:*"}


class MavenRepositoryMissing(HeadraceError):
    """No Maven repository is configured on this machine."""


def maven_repository() -> str:
    """The repository's address with a trailing slash: HEADRACE_MAVEN, else Maven's mirror, else Central."""
    settings = Path.home() / ".m2" / "settings.xml"
    repository = os.environ.get("HEADRACE_MAVEN") or read_mirror(settings) or read_ivy_central(_pyspark_jars())
    if repository is None:
        raise MavenRepositoryMissing(
            "No Maven repository is known: HEADRACE_MAVEN is not set, "
            f"{settings} names no mirror of central, and pyspark's jars have no Ivy. "
            "Set HEADRACE_MAVEN to the address of a Maven repository."
        )
    return repository.rstrip("/") + "/"


def read_mirror(settings: Path) -> str | None:
    """The first mirror of central in a Maven settings file."""
    if not settings.is_file():
        return None
    try:
        document = ET.parse(settings).getroot()  # noqa: S314 - the user's own file
    except ET.ParseError as error:
        raise MavenRepositoryMissing(f"{settings} is not XML: {error}. Fix it, or set HEADRACE_MAVEN.") from error
    for mirror in document.iterfind("{*}mirrors/{*}mirror"):
        mirrored = {word.strip() for word in mirror.findtext("{*}mirrorOf", "").split(",")}
        address = mirror.findtext("{*}url", "").strip()
        if address and mirrored & _CENTRAL_PATTERNS and "!central" not in mirrored:
            return address
    return None


def read_ivy_central(jars: Path | None) -> str | None:
    """The root of Spark's own Ivy: the same Central that `spark.jars.packages` uses."""
    for ivy in sorted(jars.glob("ivy-*.jar")) if jars else ():
        with zipfile.ZipFile(ivy) as archive:
            address_match = _CENTRAL.search(archive.read(_IVY_RESOLVER))
        if address_match:
            return address_match[0].decode()
    return None


def _pyspark_jars() -> Path | None:
    spec = find_spec("pyspark")  # located, not imported: this package does not import Spark
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "jars"
