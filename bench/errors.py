"""What stops a benchmark."""

from headrace.errors import HeadraceError


class BenchFailed(HeadraceError):
    """A measurement that cannot be trusted, or something it needs that is not there."""


class Skipped(HeadraceError):
    """A section that cannot run on this machine, and why."""
