"""What keeps changes from being captured.

HeadraceError
├── NotCapturable   the database, the table or the user is not set up for it
└── DatabaseAway    nobody answers, or not us
"""

from headrace.errors import HeadraceError


class CaptureSetupError(HeadraceError):
    """A database, a table or a user is not set up so that changes can be read."""


class DatabaseUnavailable(HeadraceError):
    """A database does not answer, or does not let us in."""
