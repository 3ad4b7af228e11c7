"""Where jars come from: the Maven repository that this machine is set up to use."""

import os
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

from headrace.errors import HeadraceError

_IVY_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_CENTRAL = re.compile(rb"https://[\w./-]+/maven2/")
_COVERS_CENTRAL = {"central", "*", "external:*"}


class NoRepository(HeadraceError):
    """No Maven repository is known on this machine."""


def maven_root() -> str:
    """The repository's address with a slash at its end: HEADRACE_MAVEN, else Maven's mirror, else Central."""
    settings = Path.home() / ".m2" / "settings.xml"
    root = os.environ.get("HEADRACE_MAVEN") or mirror_of(settings) or central_of_ivy(_pyspark_jars())
    if root is None:
        raise NoRepository(
            "No Maven repository is known: HEADRACE_MAVEN is not set, "
            f"{settings} names no mirror of central, and pyspark's jars have no Ivy. "
            "Set HEADRACE_MAVEN to the address of a Maven repository."
        )
    return root.rstrip("/") + "/"


def mirror_of(settings: Path) -> str | None:
    """The first mirror of central in a Maven settings file."""
    if not settings.is_file():
        return None
    try:
        document = ET.parse(settings).getroot()  # noqa: S314 - the user's own file
    except ET.ParseError as error:
        raise NoRepository(f"{settings} is not XML: {error}. Mend it, or set HEADRACE_MAVEN.") from error
    for mirror in document.iterfind("{*}mirrors/{*}mirror"):
        covers = {word.strip() for word in mirror.findtext("{*}mirrorOf", "").split(",")}
        address = mirror.findtext("{*}url", "").strip()
        if address and covers & _COVERS_CENTRAL and "!central" not in covers:
            return address
    return None


def central_of_ivy(jars: Path | None) -> str | None:
    """The root that Spark's own Ivy knows: the same Central that `spark.jars.packages` would use."""
    for ivy in sorted(jars.glob("ivy-*.jar")) if jars else ():
        with zipfile.ZipFile(ivy) as archive:
            found = _CENTRAL.search(archive.read(_IVY_RESOLVER))
        if found:
            return found[0].decode()
    return None


def _pyspark_jars() -> Path | None:
    spec = find_spec("pyspark")  # found, not imported: this room stays free of Spark
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "jars"
