"""A bounded cache."""

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(OrderedDict[Key, Value]):
    """A mapping with a maximum number of entries: one more evicts the oldest.

    >>> recent = BoundedCache(2)
    >>> recent["a"], recent["b"], recent["c"] = 1, 2, 3
    >>> list(recent)
    ['b', 'c']
    """

    def __init__(self, max_size: int) -> None:
        super().__init__()
        self._max_size = max_size

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._max_size:
            self.popitem(last=False)
