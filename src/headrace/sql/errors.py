"""Why a query is not answered.

HeadraceError
└── SqlRefused            the query cannot be answered as it is written
    ├── NotReadOnly       it is no single query, or one that changes something
    ├── TookTooLong       it was ended by the time limit
    └── TookTooMuch       it was ended by the memory limit, or ended the process that ran it
"""

from headrace.errors import HeadraceError

SHOW_TABLES_HINT = "`show tables` names what there is."


class SqlRefused(HeadraceError):
    """A query that cannot be answered as it is written."""


class NotReadOnlyError(SqlRefused):
    """No single query, or one that changes something."""


class QueryTimeoutError(SqlRefused):
    """A query that the time limit has ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The query was ended after {seconds:g} s of work. Ask for fewer days (where hr_day >= …), or join less."
        )


class QueryMemoryError(SqlRefused):
    """A query that needed more memory than it may have."""

    def __init__(self) -> None:
        super().__init__("The query needs more memory than it may have. Ask for fewer days, groups or columns.")
