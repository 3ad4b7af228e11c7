"""Errors of a benchmark."""

from headrace.errors import HeadraceError


class BenchFailed(HeadraceError):
    """An unreliable measurement, or a missing requirement."""


class Skipped(HeadraceError):
    """A section that cannot run on this machine, and the reason."""
