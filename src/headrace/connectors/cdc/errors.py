"""Errors of change data capture.

HeadraceError
├── CaptureSetupError     the database, the table or the user is not set up for it
└── DatabaseUnavailable   the database does not answer, or rejects the connection
"""

from headrace.errors import HeadraceError


class CaptureSetupError(HeadraceError):
    """A database, a table or a user is not set up for change capture."""


class DatabaseUnavailable(HeadraceError):
    """A database does not answer, or rejects the connection."""
