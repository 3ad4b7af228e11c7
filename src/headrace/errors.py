"""Every error Headrace raises on purpose.

    HeadraceError
    └── DeclarationError      a declaration that cannot work: raised when the module is imported

Each room adds its own causes under HeadraceError, in the file that raises them. A message says what is wrong,
the value, where, and what to do.
"""


class HeadraceError(Exception):
    """Something went wrong that the user can mend; the message says how."""


class DeclarationError(HeadraceError):
    """A declaration that cannot work, with its name, its value and what to write instead."""
