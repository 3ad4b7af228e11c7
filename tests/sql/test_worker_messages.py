"""Messages of a server survive the round trip, including values that JSON cannot represent."""

from datetime import UTC, datetime
from math import inf, isnan, nan
from pathlib import Path

import pytest

from headrace.sql.worker_messages import LiveRowsMessage, SqlRequest, SqlWorkerSetup, decode_message, encode_message

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
VALUES = [None, True, -0.5, inf, -inf, 2**80, "é\ud800\x00'", AT, [AT, None], {AT: 1, True: 2}, {1: 2}, {"at": 3}, []]


@pytest.mark.parametrize(
    "message",
    [
        SqlRequest("select 1", 10, 1000, 0.5),
        SqlWorkerSetup(None, {}),
        SqlWorkerSetup(Path("lake"), {"pairs": {"at": "VARCHAR"}}),
        LiveRowsMessage("V", "why there are none"),
        LiveRowsMessage("V", []),
        LiveRowsMessage("V", [VALUES, VALUES]),
    ],
)
def test_a_message_arrives_as_it_was_sent(message: SqlRequest | SqlWorkerSetup | LiveRowsMessage) -> None:
    found = decode_message(encode_message(message))
    assert (type(found), found) == (type(message), message)


def test_what_is_no_number_arrives_as_none_such() -> None:
    came = decode_message(encode_message(LiveRowsMessage("V", [[nan]])))
    assert isinstance(came, LiveRowsMessage)
    assert isnan(came.rows[0][0])  # type: ignore[arg-type]
