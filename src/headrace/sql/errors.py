"""Why a query is refused.

HeadraceError
└── SqlRefused               the query is invalid as written
    ├── NotReadOnlyError     it is not a single query, or not read-only
    ├── QueryTimeoutError    it exceeded the time limit
    └── QueryMemoryError     it exceeded the memory limit, or ended the process that ran it
"""

from headrace.errors import HeadraceError

SHOW_TABLES_HINT = "`show tables` lists the tables."


class SqlRefused(HeadraceError):
    """A query is invalid as written."""


class NotReadOnlyError(SqlRefused):
    """A statement is not a single query, or not read-only."""


class QueryTimeoutError(SqlRefused):
    """A query exceeded the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The query was ended after {seconds:g} s of work. Ask for fewer days (where hr_day >= …), or join less."
        )


class QueryMemoryError(SqlRefused):
    """A query exceeded the memory limit."""

    def __init__(self) -> None:
        super().__init__("The query needs more memory than it may have. Ask for fewer days, groups or columns.")
