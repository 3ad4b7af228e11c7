"""Every error Headrace raises on purpose.

    HeadraceError
    └── DeclarationError      an invalid declaration: raised when the module is imported

Each package adds its own causes under HeadraceError, in the file that raises them. A message says what is wrong, the
value, where, and what to do.
"""


class HeadraceError(Exception):
    """An error that the user can correct; the message says how."""


class DeclarationError(HeadraceError):
    """An invalid declaration, with its name, its value and what to write instead."""
