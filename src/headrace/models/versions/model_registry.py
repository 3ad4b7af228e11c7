"""The registry of model registries: each entry is a prefix of `--registry`, and the class of its client.

The folder of versions is what is served. Publishing is idempotent: a registry gets only what it does not have.
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
    """An unknown kind of model registry."""


class ModelRegistryFailed(HeadraceError):
    """A version or a champion could not be published to the registry."""


class ModelRegistry(ABC):
    """A registry to which versions and champions of models are published."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @classmethod
    @abstractmethod
    def default_uri(cls, state: Path) -> str:
        """Its default address, next to the state of an app."""

    @abstractmethod
    def publish_versions(self, versions: "VersionStore") -> list[str]:
        """Publish every version it does not have, and the champion; returns the new versions."""


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
    """The entry of a setting such as `mlflow:URI`."""
    kind = setting.partition(":")[0]
    if kind not in MODEL_REGISTRIES:
        examples = [example for entry in MODEL_REGISTRIES for example in (entry.name, entry.address_example)]
        raise UnknownModelRegistryError(
            f"--registry {mask_credentials(setting)!r} is not known. Write {join_words(examples)}."
        )
    return MODEL_REGISTRIES[kind]


def open_model_registry(setting: str, state: Path) -> ModelRegistry:
    """The registry of a setting, at its address or the default one."""
    registry_class: type[ModelRegistry] = require_model_registry(setting).load(
        f"--registry {setting.partition(':')[0]}"
    )
    return registry_class(setting.partition(":")[2] or registry_class.default_uri(state))


def mask_credentials(text: str) -> str:
    """A text in one line, with the credentials of addresses masked."""
    return _URL_CREDENTIALS.sub("//…@", " ".join(text.split())).rstrip(".")
