"""The registry of model registries: each entry is what `--registry` may begin with, and the class that speaks to it.

The folder of versions is what is served. A registry is told what is in it as often as anybody likes: what it has, it is
not told again.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.plugins import Driver, PluginEntry, PluginRegistry, join_words

if TYPE_CHECKING:
    from headrace.models.versions.version_store import VersionStore

_URL_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class UnknownModelRegistryError(HeadraceError):
    """A registry of another kind than there are."""


class ModelRegistryFailed(HeadraceError):
    """A registry that could not be told of a version or a champion."""


class ModelRegistry(ABC):
    """Versions and champions of models, kept elsewhere as well."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @classmethod
    @abstractmethod
    def default_uri(cls, state: Path) -> str:
        """Where it is unless an address is given, beside the state of an app."""

    @abstractmethod
    def publish_versions(self, versions: "VersionStore") -> list[str]:
        """Tell it of every version it lacks, and who is champion; gives the versions that were new to it."""


@dataclass(frozen=True, kw_only=True)
class ModelRegistryEntry(PluginEntry[Any]):
    """A model registry; `settings` has the forms of its setting, and where each keeps versions, as the docs say it."""

    address_example: str
    settings: Mapping[str, str]


MODEL_REGISTRIES = PluginRegistry(
    "model registry",
    "models.md",
    [
        ModelRegistryEntry(
            "mlflow",
            "MLflow",
            "headrace.models.versions.mlflow_registry:MlflowRegistry",
            Driver("mlflow", extra="mlflow"),
            address_example="mlflow:http://host:5000",
            settings={
                "mlflow": "in `.headrace/mlflow`, a file store that MLflow no longer develops: for trying it out",
                "mlflow:http://…": "on your MLflow server",
                "mlflow:sqlite:///…": "there, or in another database; requires the full `mlflow` package instead of "
                "`mlflow-skinny`, which the extra installs",
            },
        ),
    ],
)
MODEL_REGISTRY_METAVAR = "|".join(f"{name}[:URI]" for name in MODEL_REGISTRIES.names)
MODEL_REGISTRY_TITLES = join_words([entry.title for entry in MODEL_REGISTRIES])
MODEL_REGISTRY_EXAMPLE = next(iter(MODEL_REGISTRIES)).address_example


def require_model_registry(setting: str) -> ModelRegistryEntry:
    """The entry that a setting such as `mlflow:URI` names."""
    kind = setting.partition(":")[0]
    if kind not in MODEL_REGISTRIES:
        examples = [example for entry in MODEL_REGISTRIES for example in (entry.name, entry.address_example)]
        raise UnknownModelRegistryError(
            f"--registry {mask_credentials(setting)!r} is not known. Write {join_words(examples)}."
        )
    return MODEL_REGISTRIES[kind]


def open_model_registry(setting: str, state: Path) -> ModelRegistry:
    """The registry that a setting names, at its address or where it is unless one is given."""
    registry_class: type[ModelRegistry] = require_model_registry(setting).load(
        f"--registry {setting.partition(':')[0]}"
    )
    return registry_class(setting.partition(":")[2] or registry_class.default_uri(state))


def mask_credentials(text: str) -> str:
    """A text in one line, without the credentials of the addresses in it."""
    return _URL_CREDENTIALS.sub("//…@", " ".join(text.split())).rstrip(".")
