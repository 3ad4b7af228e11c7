"""What runs in the lake's process beside the lake."""

from pathlib import Path
from types import ModuleType

import headrace as hr
from headrace.cli.lake import comparisons
from headrace.declare.app import App, app_of
from headrace.lake.lake import Lake
from headrace.local.ports import HOST, free_port

payments = hr.Stream("payments", schema="id string, card string, at timestamp", id="id", key="card", time="at")


@hr.features(payments, by="card")
class CardSpend:
    payments = hr.count(windows="1h")


def app(**how: object) -> App:
    module = ModuleType("shop")
    vars(module).update(fraud=hr.Model("fraud", on=payments, features=[CardSpend], **how))  # type: ignore[arg-type]
    return app_of(module)


def test_models_that_are_trained_are_compared_and_those_of_a_file_are_not(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", f"{HOST}:{free_port()}", ())
    (part,) = comparisons(app(train=lambda frame: frame), lake, tmp_path)
    assert all(callable(getattr(part, word)) for word in ("start", "stop", "join"))
    assert comparisons(app(file="fraud.onnx"), lake, tmp_path) == []
