"""ONNX models in onnxruntime: one thread each, on the CPU, read from bytes that were read once."""

import json
from pathlib import Path
from typing import Any

import onnxruntime

from headrace.errors import HeadraceError
from headrace.score.external_data import UnreadableModel, external_tensor
from headrace.score.limits import Limit, TooSlow

INPUTS_KEY = "headrace.inputs"
LARGEST_BYTES = 1 << 30
LOAD_S = 60.0
SILENT = 4  # what fails is raised, and said once


class BrokenModel(HeadraceError):
    """A model's file that is not there or cannot be loaded."""


class ExternalData(BrokenModel):
    """A model whose tensors are in other files, which it could name as it likes."""


def read_model(file: Path) -> bytes:
    """The bytes of a model's file."""
    try:
        size = file.stat().st_size
        if size > LARGEST_BYTES:
            raise BrokenModel(f"{str(file)!r} has {size:,} bytes. Give a model of at most {LARGEST_BYTES:,}.")
        return file.read_bytes()
    except OSError as failure:
        raise BrokenModel(f"{str(file)!r} cannot be read: {failure.strerror}. Put the ONNX file there.") from failure


def load_network(content: bytes, where: str) -> onnxruntime.InferenceSession:
    """A session that runs a model on one thread."""
    require_self_contained(content, where)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = SILENT
    with Limit(LOAD_S, lambda: options.set_load_cancellation_flag(True)) as limit:
        try:
            return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as failure:  # noqa: BLE001 - onnxruntime has a class for each cause, and no common one
            if limit.is_over:
                raise TooSlow(f"{where} is not loaded after {LOAD_S:g} s. Export a smaller model.") from None
            raise BrokenModel(
                f"{where} is not a model onnxruntime can run: {first_line(failure)} Export it anew."
            ) from None


def require_self_contained(content: bytes, where: str) -> None:
    """Refuse a model that would have other files read, or whose bytes cannot be looked through."""
    try:
        tensor = external_tensor(content)
    except UnreadableModel as problem:
        raise BrokenModel(f"{where} is not a model onnxruntime can run: {problem}. Export it anew.") from None
    if tensor is not None:
        raise ExternalData(
            f"{where} keeps its tensor {tensor!r} in another file, and only the model's own file is read. "
            "Save it whole: onnx.save_model(model, path, save_as_external_data=False)."
        )


def run_within(
    within_s: float, network: onnxruntime.InferenceSession, output: str, feeds: dict[str, Any], where: str
) -> Any:
    """An output of a model, or the end of its run after so many seconds."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = SILENT
    with Limit(within_s, lambda: setattr(options, "terminate", True)) as limit:
        try:
            return network.run([output], feeds, options)[0]
        except Exception:
            if limit.is_over:
                raise TooSlow(f"{where} has not answered within {within_s:g} s.") from None
            raise


def trained_inputs(network: onnxruntime.InferenceSession, where: str) -> tuple[str, ...] | None:
    """The names of the columns a model was trained on, where its file tells them."""
    written = network.get_modelmeta().custom_metadata_map.get(INPUTS_KEY)
    if written is None:
        return None
    names = _parsed(written)
    if not isinstance(names, list) or not names or any(not isinstance(name, str) for name in names):
        raise BrokenModel(f"{where}: its {INPUTS_KEY} is {written[:80]!r}, not a list of names. Train it anew.")
    return tuple(names)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def first_line(failure: Exception, at_most: int = 300) -> str:
    """What a failure says first, or its kind where it says nothing."""
    return (str(failure).strip() or type(failure).__name__).splitlines()[0][:at_most]
