"""ONNX models in onnxruntime: one thread each, on the CPU, loaded from bytes that were read once."""

import json
from pathlib import Path
from typing import Any

import onnxruntime

from headrace.errors import HeadraceError
from headrace.models.inference.onnx_external_data import InvalidProtobufError, find_external_tensor
from headrace.models.inference.time_limits import ModelTimeoutError, TimeLimit

INPUTS_KEY = "headrace.inputs"
MAX_MODEL_BYTES = 1 << 30
LOAD_TIMEOUT_S = 60.0
FATAL_SEVERITY = 4  # failures are raised, so logging them would repeat them


class ModelLoadFailed(HeadraceError):
    """A model's file is missing or cannot be loaded."""


class ExternalDataRefused(ModelLoadFailed):
    """A model with tensors in other files, whose names it chooses."""


def read_model(file: Path) -> bytes:
    """The bytes of a model's file."""
    try:
        size = file.stat().st_size
        if size > MAX_MODEL_BYTES:
            raise ModelLoadFailed(f"{str(file)!r} has {size:,} bytes. Give a model of at most {MAX_MODEL_BYTES:,}.")
        return file.read_bytes()
    except OSError as failure:
        raise ModelLoadFailed(
            f"{str(file)!r} cannot be read: {failure.strerror}. Put the ONNX file there."
        ) from failure


def load_inference_session(content: bytes, where: str) -> onnxruntime.InferenceSession:
    """A session that runs a model on one thread."""
    require_self_contained(content, where)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_SEVERITY
    with TimeLimit(LOAD_TIMEOUT_S, lambda: options.set_load_cancellation_flag(True)) as limit:
        try:
            return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as failure:  # noqa: BLE001 - onnxruntime has a class for each cause, and no common one
            if limit.is_expired:
                raise ModelTimeoutError(
                    f"{where} is not loaded after {LOAD_TIMEOUT_S:g} s. Export a smaller model."
                ) from None
            raise ModelLoadFailed(
                f"{where} is not a model onnxruntime can run: {first_line(failure)} Export it again."
            ) from None


def require_self_contained(content: bytes, where: str) -> None:
    """Reject a model that reads other files, or whose bytes cannot be parsed."""
    try:
        tensor = find_external_tensor(content)
    except InvalidProtobufError as problem:
        raise ModelLoadFailed(f"{where} is not a model onnxruntime can run: {problem}. Export it again.") from None
    if tensor is not None:
        raise ExternalDataRefused(
            f"{where} keeps its tensor {tensor!r} in another file, and only the model's own file is read. "
            "Save it whole: onnx.save_model(model, path, save_as_external_data=False)."
        )


def run_with_timeout(
    timeout_s: float, session: onnxruntime.InferenceSession, output: str, feeds: dict[str, Any], where: str
) -> Any:
    """An output of a model; the run is aborted after the time-out."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = FATAL_SEVERITY
    with TimeLimit(timeout_s, lambda: setattr(options, "terminate", True)) as limit:
        try:
            return session.run([output], feeds, options)[0]
        except Exception:
            if limit.is_expired:
                raise ModelTimeoutError(f"{where} has not answered within {timeout_s:g} s.") from None
            raise


def trained_input_names(session: onnxruntime.InferenceSession, where: str) -> tuple[str, ...] | None:
    """The names of the columns a model was trained on, if its file has them."""
    names_text = session.get_modelmeta().custom_metadata_map.get(INPUTS_KEY)
    if names_text is None:
        return None
    names = _parse_json(names_text)
    if not isinstance(names, list) or not names or any(not isinstance(name, str) for name in names):
        raise ModelLoadFailed(f"{where}: its {INPUTS_KEY} is {names_text[:80]!r}, not a list of names. Train it again.")
    return tuple(names)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def first_line(failure: Exception, max_length: int = 300) -> str:
    """The first line of a failure, or its type where it has no message."""
    return (str(failure).strip() or type(failure).__name__).splitlines()[0][:max_length]
