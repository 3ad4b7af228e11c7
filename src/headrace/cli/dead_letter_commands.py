"""Shared by `headrace dead` and `headrace parked`: list, show, correct, replay and discard letters."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from headrace.kafka.dead_letter_queue import DeadLetter, DeadLetterQueue, DeadLetterQueueConfig, DeadLetterState
from headrace.kafka.record import Headers, escape_unprintable
from headrace.runtime.configuration.click_options import setting_options
from headrace.runtime.settings import BadSetting
from headrace.tiles.finish import to_datetime

ACTIONS = ("ls", "show", "replay", "discard")
MAX_SHOWN_BYTES, MAX_SHOWN_HEADERS = 2_000, 50
BATCH_SIZE = 500
LETTER_OPTIONS = (
    click.option("--reason", metavar="CODE", help="Only letters with this reason, such as wrong-type."),
    click.option(
        "--place",
        "places",
        multiple=True,
        metavar="PLACE",
        help="Only the letter at this offset, such as payments-0@42.",
    ),
    click.option("--limit", default=20, show_default=True, help="Show at most this many."),
    click.option("--every", is_flag=True, help="Also show letters that were replayed or discarded."),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="Write the selected letters to a file, one per line, to correct them.",
    ),
    click.option(
        "--from",
        "from_",
        type=click.Path(exists=True, path_type=Path),
        help="Replay the corrected letters of this file.",
    ),
    click.option("--yes", is_flag=True, help="Discard without asking."),
    setting_options("broker", "broker_port"),
    click.option("--json", "in_json", is_flag=True, help="As JSON."),
)

LetterFilter = Callable[[DeadLetter], bool]


def run_action(broker: str, action: str, queue: DeadLetterQueueConfig, flags: dict[str, Any]) -> None:
    """Show, replay or discard the letters of one queue."""
    {"show": _show, "replay": _replay, "discard": _discard}[action](
        DeadLetterQueue(broker, queue), _letter_filter(flags), flags
    )


def print_counts(broker: str, queues: Sequence[DeadLetterQueueConfig], *, owner_kind: str, in_json: bool) -> None:
    """Print the number of letters in each queue, by reason; `owner_kind` is what queues belong to: a stream, a sink."""
    rows = [row for queue in queues for row in _count_by_reason(owner_kind, queue, DeadLetterQueue(broker, queue))]
    if in_json:
        click.echo(json.dumps(rows))
        return
    width = max(24, *(len(box.source_name) + 2 for box in queues)) if queues else 24
    header = f"{owner_kind:<{width}}{'reason':<16}{'open':>8}{'replayed':>10}{'discarded':>11}  last"
    lines = [f"{row[owner_kind]:<{width}}{_format_counts(row)}" for row in rows]
    click.echo("\n".join([header, *lines]) if rows else "There are none.")


def _letter_filter(flags: dict[str, Any]) -> LetterFilter:
    reason, locations = flags["reason"], frozenset(flags["places"])
    return lambda letter: (reason is None or letter.code == reason) and (not locations or letter.location in locations)


def _count_by_reason(
    owner_kind: str, queue: DeadLetterQueueConfig, letters: DeadLetterQueue
) -> Iterator[dict[str, Any]]:
    states, counts_by_reason, newest_by_reason = (
        letters.read_states(),
        defaultdict[str, Counter[str]](Counter),
        dict[str, DeadLetter](),
    )
    for entry in letters.read_letters():
        counts_by_reason[entry.code][_letter_state(states, entry)] += 1
        newest_by_reason[entry.code] = max(
            entry, newest_by_reason.get(entry.code, entry), key=lambda letter: letter.arrival_us
        )
    for code, state_counts in sorted(counts_by_reason.items()):
        newest = newest_by_reason[code]
        row: dict[str, Any] = {owner_kind: queue.source_name, "reason": code}
        row |= {state: state_counts[state] for state in ("open", "replayed", "discarded")}
        yield row | {"last": _arrival_text(newest), "place": newest.location, "said": newest.reason}


def _format_counts(row: dict[str, Any]) -> str:
    counts = f"{row['open']:>8,}{row['replayed']:>10,}{row['discarded']:>11,}"
    return f"{row['reason']:<16}{counts}  {row['last']} at {row['place']}: {row['said']}"


def _show(letters: DeadLetterQueue, letter_filter: LetterFilter, flags: dict[str, Any]) -> None:
    states = letters.read_states()
    selected = (
        letter
        for letter in letters.read_letters()
        if letter_filter(letter) and (flags["every"] or _letter_state(states, letter) == "open")
    )
    rows = _letter_rows(letters, selected if flags["out"] else islice(selected, flags["limit"]), states)
    if flags["out"] is not None:
        click.echo(
            f"{_write_rows(flags['out'], rows)} letters are in {flags['out']}. Correct their values, then replay "
            f"--from it."
        )
    elif flags["in_json"]:
        click.echo(json.dumps(list(rows)))
    else:
        click.echo("\n\n".join(map(_format_letter, rows)) or "There are none.")


def _letter_rows(
    letters: DeadLetterQueue, selected: Iterator[DeadLetter], states: dict[str, DeadLetterState]
) -> Iterator[dict[str, Any]]:
    while batch := list(islice(selected, BATCH_SIZE)):
        headers = letters.read_source_headers(batch)
        for letter in batch:
            yield _letter_row(letter, _letter_state(states, letter)) | {
                "headers": _shown_headers(headers.get(letter.location))
            }


def _letter_row(letter: DeadLetter, state: DeadLetterState) -> dict[str, Any]:
    row = {"place": letter.location, "state": state, "reason": letter.reason, "arrived": _arrival_text(letter)}
    return row | {"key": _to_json_text(letter.key), "value": _to_json_text(letter.value)}


def _shown_headers(headers: Headers | None) -> list[list[Any]] | None:
    """The headers of a record, as far as they can be shown; None if the raw topic no longer has the record."""
    if headers is None:
        return None
    return [
        [name[:MAX_SHOWN_BYTES], _to_json_text(value and value[:MAX_SHOWN_BYTES])]
        for name, value in headers[:MAX_SHOWN_HEADERS]
    ]


def _to_json_text(content: bytes | None) -> str | dict[str, str] | None:
    """Bytes as text or, if they are not text, in base64."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content or b"").decode()}


def _format_letter(row: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"{row['place']}  {row['arrived']}  {row['state']}",
            f"  {row['reason']}",
            *(
                f"  {escape_unprintable(name)}: {escape_unprintable(_to_plain_text(content))}"
                for name, content in row["headers"] or ()
            ),
            f"  {escape_unprintable(_to_plain_text(row['value']))}",
        ]
    )


def _to_plain_text(content: str | dict[str, str] | None) -> str:
    """Bytes as text or, if they are not text, in hex."""
    if isinstance(content, dict):
        return base64.b64decode(content["base64"])[:MAX_SHOWN_BYTES].hex(" ")
    return "" if content is None else content[:MAX_SHOWN_BYTES]


def _write_rows(out: Path, rows: Iterator[dict[str, Any]]) -> int:
    count = 0
    with out.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


def _replay(letters: DeadLetterQueue, letter_filter: LetterFilter, flags: dict[str, Any]) -> None:
    corrected_values = {} if flags["from_"] is None else dict(_read_corrected_values(flags["from_"]))
    locations = {letter.location for letter in letters.read_letters() if letter_filter(letter)}
    unknown = sorted(corrected_values.keys() - locations)
    if unknown:
        raise BadSetting(f"There is no letter {unknown[0]}. The same command with show and --every lists them all.")
    selected_locations = locations if flags["from_"] is None else corrected_values.keys()
    count = letters.replay(
        (one for one in letters.read_letters() if one.location in selected_locations), corrected_values
    )
    _print_result(flags, {"replayed": count, "already": len(selected_locations) - count})


def _read_corrected_values(file: Path) -> Iterator[tuple[str, bytes]]:
    """The offset and the new value of each line: a JSON object, text, or base64."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            yield row["place"], _to_bytes(row["value"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadSetting(
                f'{file} line {number} is no letter: {error}. Write {{"place": "payments-0@42", "value": {{…}}}}.'
            ) from error


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _discard(letters: DeadLetterQueue, letter_filter: LetterFilter, flags: dict[str, Any]) -> None:
    states = letters.read_states()
    selected_locations = {
        letter.location
        for letter in letters.read_letters()
        if letter_filter(letter) and _letter_state(states, letter) == "open"
    }
    if selected_locations and not flags["yes"]:
        click.confirm(f"Discard {len(selected_locations)} letters?", abort=True)
    _print_result(
        flags,
        {"discarded": letters.discard(one for one in letters.read_letters() if one.location in selected_locations)},
    )


def _print_result(flags: dict[str, Any], counts: dict[str, int]) -> None:
    click.echo(
        json.dumps(counts)
        if flags["in_json"]
        else ", ".join(f"{outcome} {count:,}" for outcome, count in counts.items())
    )


def _letter_state(states: dict[str, DeadLetterState], letter: DeadLetter) -> DeadLetterState:
    return states.get(letter.location, "open")


def _arrival_text(letter: DeadLetter) -> str:
    return to_datetime(letter.arrival_us).isoformat(timespec="milliseconds")
