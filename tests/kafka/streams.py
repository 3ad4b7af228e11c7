"""Streams with unique names, so that tests can share one broker."""

from itertools import count
from typing import Any

import headrace as hr

_numbers = count()


def new_stream(**settings: Any) -> hr.Stream:
    """A stream of payments with a unique name."""
    return hr.Stream(
        f"payments{next(_numbers)}",
        schema="id string, card string, amount double, at timestamp",
        id="id",
        key="card",
        time="at",
        **settings,
    )


def new_view(stream: hr.Stream | list[hr.Stream], **windows: str) -> hr.View:
    """A view with a unique name: one count per window."""
    body = {name: hr.count(windows=window) for name, window in (windows or {"payments": "1h"}).items()}
    return hr.features(stream, by="card")(type(f"View{next(_numbers)}", (), body))
