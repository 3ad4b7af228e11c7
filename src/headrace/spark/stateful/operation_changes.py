"""Describes how an operation's declaration differs from the one its state was started with.

>>> saved = {"by": [["user"]], "inputs": [], "what": {"": "Windowing", "over": {"": "Tumbling", "size_us": 60000000}}}
>>> current = saved | {"what": {"": "Windowing", "over": {"": "Tumbling", "size_us": 120000000}}}
>>> describe_changes(saved, current)
['`over` changed from Tumbling(1m) to Tumbling(2m)']
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.declare.durations import duration_text
from headrace.spark.stateful.operation_identity import OperationIdentity
from headrace.spark.tiles.view_changes import describe_shape_changes

OPERATION_NAMES = {"Windowing": "window", "Join": "join", "AsofJoin": "as-of join", "Sequence": "pattern"}
SETTING_NAMES = {"partials": "partials", "patience_us": "late", "before_us": "within", "after_us": "within"}
SIDE_SETTINGS = {"outer": "kind", "after_us": "late", "until_us": "late"}
INPUT_SETTINGS = ("id", "time", "arrival", "late")
MAX_VALUE_LENGTH = 60  # a longer value is named, not shown


def operation_kind(identity: OperationIdentity) -> str:
    """The name of an operation's kind for users."""
    spec = identity["what"]
    name = spec.get("", "view") if isinstance(spec, dict) else "operation"
    return OPERATION_NAMES.get(name, "view" if name == "view" else "operation")


def describe_changes(saved: OperationIdentity, current: OperationIdentity) -> list[str]:
    """Every change that the operation's state cannot follow; empty where it follows them all."""
    changes = [
        *_key_changes(saved, current),
        *_input_changes(saved["inputs"], current["inputs"]),
        *_spec_changes(saved["what"], current["what"]),
    ]
    return list(dict.fromkeys(changes))


def _key_changes(saved: OperationIdentity, current: OperationIdentity) -> Iterator[str]:
    old, new = ([", ".join(columns) for columns in identity["by"]] for identity in (saved, current))
    if old != new and len(old) == len(new) and operation_kind(current) != "view":  # whose shape names its key
        yield _format_change("by", " and ".join(dict.fromkeys(old)), " and ".join(dict.fromkeys(new)))


def _input_changes(saved: list[OperationIdentity], current: list[OperationIdentity]) -> Iterator[str]:
    old, new = (" and ".join(dict.fromkeys(stream["name"] for stream in streams)) for streams in (saved, current))
    if old != new:
        yield f"it read {old} and reads {new}"
        return
    for saved_input, current_input in zip(saved, current, strict=True):
        for setting in INPUT_SETTINGS:
            if saved_input[setting] != current_input[setting]:
                saved_value, current_value = _format_value(saved_input[setting]), _format_value(current_input[setting])
                yield (f"{_format_change(setting, saved_value, current_value)} in {saved_input['name']}")
        yield from _column_changes(saved_input, current_input)


def _column_changes(saved: OperationIdentity, current: OperationIdentity) -> Iterator[str]:
    """Columns with another type than before; an added or removed column matters only to its readers."""
    for name, type_ in saved["columns"].items():
        current_type = current["columns"].get(name, type_)
        if current_type != type_:
            yield f"column {name} of {saved['name']} changed from {type_} to {current_type}"


def _spec_changes(saved: Any, current: Any) -> Iterator[str]:
    if not isinstance(saved, dict) or not isinstance(current, dict) or saved.get("") != current.get(""):
        if saved != current:
            yield f"it was a {_spec_kind(saved)} and is a {_spec_kind(current)}"
    elif "" not in current:
        yield from describe_shape_changes(saved, current)
    else:
        for setting in saved | current:
            yield from _setting_changes(setting, saved.get(setting), current.get(setting))


def _spec_kind(spec: Any) -> str:
    return operation_kind({"what": spec})


def _setting_changes(setting: str, old: Any, new: Any) -> Iterator[str]:
    if setting in ("left", "right"):
        yield from _side_changes(old, new)
    elif setting in ("measures", "steps", "nevers"):
        yield from _named_item_changes(setting.removesuffix("s"), _by_name(old), _by_name(new))
    elif setting not in ("schema", "by", "key") and old != new:  # reported by inputs and keys
        name = SETTING_NAMES.get(setting, setting.removesuffix("_us"))
        is_duration = setting.endswith("_us")
        yield _format_change(
            name, _format_value(old, is_duration=is_duration), _format_value(new, is_duration=is_duration)
        )


def _side_changes(old: OperationIdentity, new: OperationIdentity) -> Iterator[str]:
    columns = dict(new["columns"])
    for column, output in old["columns"]:
        if column not in columns:
            yield f"column {column} of {old['name']} was removed"
        elif columns[column] != output:
            yield f"column {column} of {old['name']} was called {output} and would be called {columns[column]}"
    for setting, name in SIDE_SETTINGS.items():
        if old[setting] != new[setting]:
            is_duration = setting.endswith("_us")
            values = (_format_value(side[setting], is_duration=is_duration) for side in (old, new))
            yield f"{_format_change(name, *values)} for {old['name']}" if is_duration else f"`{name}` changed"


def _by_name(items: list[Any]) -> dict[str, Any]:
    """Steps and columns of results by their names."""
    return {item["name"] if isinstance(item, dict) else item[0]: item for item in items}


def _named_item_changes(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    prefix = "" if kind == "measure" else f"{kind} "
    yield from (f"{prefix}{name} was removed" for name in old if name not in new)
    yield from (f"{prefix}{name} was added" for name in new if name not in old)
    common_names = [name for name in old if name in new]
    yield from (
        f"{prefix}{name} changed{_describe_item_change(old[name], new[name])}"
        for name in common_names
        if old[name] != new[name]
    )
    if common_names != [name for name in new if name in old]:
        yield f"the order of its {kind}s changed"


def _describe_item_change(old: Any, new: Any) -> str:
    """How an aggregate changed, where that is short."""
    texts = [_format_aggregate(item[1]) for item in (old, new) if isinstance(item, list) and isinstance(item[1], dict)]
    if len(texts) == 2 and texts[0] != texts[1]:
        return f" from {texts[0]} to {texts[1]}"
    settings = [one for one in old if one in new and old[one] != new[one]] if isinstance(old, dict) else []
    return f" in {', '.join(settings)}" if settings else ""


def _format_aggregate(aggregate: OperationIdentity) -> str:
    return f"{aggregate['function']}({aggregate['column'] or ''})"


def _format_change(setting: str, old: str, new: str) -> str:
    if max(len(old), len(new)) > MAX_VALUE_LENGTH or old == new:
        return f"`{setting}` changed"
    return f"`{setting}` changed from {old} to {new}"


def _format_value(value: Any, *, is_duration: bool = False) -> str:
    """A value as it is declared, if it is short."""
    if value is None:
        return "none"
    if is_duration and isinstance(value, int):
        return ("-" if value < 0 else "") + duration_text(abs(value)) if value else "0s"
    if isinstance(value, dict) and "" in value:
        parts = [
            _format_field(name, field_value) for name, field_value in value.items() if name and field_value is not None
        ]
        return f"{value['']}({', '.join(dict.fromkeys(parts))})"
    return ", ".join(map(_format_value, value)) if isinstance(value, list) else str(value)


def _format_field(name: str, value: Any) -> str:
    return _format_value(value, is_duration=name.endswith("_us"))
