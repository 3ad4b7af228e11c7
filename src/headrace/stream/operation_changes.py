"""What has changed between the terms an operation was begun with and those it has now, in the words of its declaration.

>>> begun = {"by": [["user"]], "inputs": [], "what": {"": "Windowing", "over": {"": "Tumbling", "size_us": 60000000}}}
>>> now = begun | {"what": {"": "Windowing", "over": {"": "Tumbling", "size_us": 120000000}}}
>>> describe_changes(begun, now)
['`over` changed from Tumbling(1m) to Tumbling(2m)']
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.declare.durations import duration_text
from headrace.stream.operation_terms import Terms
from headrace.stream.view_changes import describe_shape_changes

KINDS = {"Windowing": "window", "Join": "join", "AsofJoin": "as-of join", "Sequence": "pattern"}
SETTINGS = {"partials": "partials", "patience_us": "late", "before_us": "within", "after_us": "within"}
OF_SIDES = {"outer": "kind", "after_us": "late", "until_us": "late"}
OF_INPUTS = ("id", "time", "arrival", "late")
LONGEST = 60  # a value that takes more is named, not shown


def kind_of(terms: Terms) -> str:
    """What an operation is called by people."""
    what = terms["what"]
    name = what.get("", "view") if isinstance(what, dict) else "operation"
    return KINDS.get(name, "view" if name == "view" else "operation")


def describe_changes(begun: Terms, now: Terms) -> list[str]:
    """What the state of an operation cannot follow, each change once; empty where it follows them all."""
    changes = [
        *_of_keys(begun, now),
        *_of_inputs(begun["inputs"], now["inputs"]),
        *_of_what(begun["what"], now["what"]),
    ]
    return list(dict.fromkeys(changes))


def _of_keys(begun: Terms, now: Terms) -> Iterator[str]:
    was, is_ = ([", ".join(columns) for columns in terms["by"]] for terms in (begun, now))
    if was != is_ and len(was) == len(is_):
        yield _changed("by", " and ".join(dict.fromkeys(was)), " and ".join(dict.fromkeys(is_)))


def _of_inputs(begun: list[Terms], now: list[Terms]) -> Iterator[str]:
    was, is_ = (" and ".join(dict.fromkeys(stream["name"] for stream in streams)) for streams in (begun, now))
    if was != is_:
        yield f"it read {was} and reads {is_}"
        return
    for before, after in zip(begun, now, strict=True):
        for setting in OF_INPUTS:
            if before[setting] != after[setting]:
                yield f"{_changed(setting, _text(before[setting]), _text(after[setting]))} in {before['name']}"
        yield from _of_columns(before, after)


def _of_columns(before: Terms, after: Terms) -> Iterator[str]:
    """Columns that were there and have another type now: what was added or removed matters to what reads it alone."""
    for name, type_ in before["columns"].items():
        now = after["columns"].get(name, type_)
        if now != type_:
            yield f"column {name} of {before['name']} changed from {type_} to {now}"


def _of_what(begun: Any, now: Any) -> Iterator[str]:
    if not isinstance(begun, dict) or not isinstance(now, dict) or begun.get("") != now.get(""):
        if begun != now:
            yield f"it was a {_kind(begun)} and is a {_kind(now)}"
    elif "" not in now:
        yield from describe_shape_changes(begun, now)
    else:
        for setting in begun | now:
            yield from _of_setting(setting, begun.get(setting), now.get(setting))


def _kind(what: Any) -> str:
    return kind_of({"what": what})


def _of_setting(setting: str, was: Any, is_: Any) -> Iterator[str]:
    if setting in ("left", "right"):
        yield from _of_side(was, is_)
    elif setting in ("measures", "steps", "nevers"):
        yield from _of_named(setting.removesuffix("s"), _by_name(was), _by_name(is_))
    elif setting not in ("schema", "by", "key") and was != is_:  # told of by inputs and keys
        name = SETTINGS.get(setting, setting.removesuffix("_us"))
        unit_us = setting.endswith("_us")
        yield _changed(name, _text(was, unit_us=unit_us), _text(is_, unit_us=unit_us))


def _of_side(was: Terms, is_: Terms) -> Iterator[str]:
    columns = dict(is_["columns"])
    for column, output in was["columns"]:
        if column not in columns:
            yield f"column {column} of {was['name']} was removed"
        elif columns[column] != output:
            yield f"column {column} of {was['name']} was called {output} and would be called {columns[column]}"
    for setting, name in OF_SIDES.items():
        if was[setting] != is_[setting]:
            unit_us = setting.endswith("_us")
            values = (_text(side[setting], unit_us=unit_us) for side in (was, is_))
            yield f"{_changed(name, *values)} for {was['name']}" if unit_us else f"`{name}` changed"


def _by_name(items: list[Any]) -> dict[str, Any]:
    """Steps and columns of results by their names."""
    return {item["name"] if isinstance(item, dict) else item[0]: item for item in items}


def _of_named(kind: str, was: Mapping[str, Any], is_: Mapping[str, Any]) -> Iterator[str]:
    word = "" if kind == "measure" else f"{kind} "
    yield from (f"{word}{name} was removed" for name in was if name not in is_)
    yield from (f"{word}{name} was added" for name in is_ if name not in was)
    both = [name for name in was if name in is_]
    yield from (f"{word}{name} changed{_how(was[name], is_[name])}" for name in both if was[name] != is_[name])
    if both != [name for name in is_ if name in was]:
        yield f"the order of its {kind}s changed"


def _how(was: Any, is_: Any) -> str:
    """How an aggregate changed, where that is short to say."""
    texts = [_aggregate(one[1]) for one in (was, is_) if isinstance(one, list) and isinstance(one[1], dict)]
    if len(texts) == 2 and texts[0] != texts[1]:
        return f" from {texts[0]} to {texts[1]}"
    settings = [one for one in was if one in is_ and was[one] != is_[one]] if isinstance(was, dict) else []
    return f" in {', '.join(settings)}" if settings else ""


def _aggregate(aggregate: Terms) -> str:
    return f"{aggregate['function']}({aggregate['column'] or ''})"


def _changed(setting: str, was: str, is_: str) -> str:
    if max(len(was), len(is_)) > LONGEST or was == is_:
        return f"`{setting}` changed"
    return f"`{setting}` changed from {was} to {is_}"


def _text(value: Any, *, unit_us: bool = False) -> str:
    """A value as it is declared, as far as it is short."""
    if value is None:
        return "none"
    if unit_us and isinstance(value, int):
        return ("-" if value < 0 else "") + duration_text(abs(value)) if value else "0s"
    if isinstance(value, dict) and "" in value:
        parts = [_part(name, one) for name, one in value.items() if name and one is not None]
        return f"{value['']}({', '.join(dict.fromkeys(parts))})"
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _part(name: str, value: Any) -> str:
    return _text(value, unit_us=name.endswith("_us"))
