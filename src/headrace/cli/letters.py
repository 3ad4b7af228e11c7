"""What `headrace dead` and `headrace parked` share: letters by reason, one by one, mended and sent again, put away."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from headrace.cli.settings import LOG_OPTIONS, BadSetting
from headrace.log.letters import Box, Letter, Letters, Word
from headrace.log.records import Headers, printable
from headrace.tiles.finish import moment

ACTIONS = ("ls", "show", "replay", "discard")
SHOWN_BYTES, SHOWN_HEADERS = 2_000, 50
AT_ONCE = 500
LETTER_OPTIONS = (
    click.option("--reason", metavar="CODE", help="Only those of this reason, such as wrong-type."),
    click.option("--place", "places", multiple=True, metavar="PLACE", help="Only this one, such as payments-0@42."),
    click.option("--limit", default=20, show_default=True, help="Show so many at most."),
    click.option("--every", is_flag=True, help="Show also what was replayed or discarded."),
    click.option(
        "--out", type=click.Path(path_type=Path), help="Write those chosen to a file, a line each, to be mended."
    ),
    click.option(
        "--from", "from_", type=click.Path(exists=True, path_type=Path), help="Replay what this file has, as mended."
    ),
    click.option("--yes", is_flag=True, help="Do not ask whether to discard."),
    *LOG_OPTIONS,
    click.option("--json", "in_json", is_flag=True, help="As JSON."),
)

Wanted = Callable[[Letter], bool]


def act(broker: str, action: str, box: Box, flags: dict[str, Any]) -> None:
    """Show, replay or discard the letters of one box."""
    {"show": _show, "replay": _replay, "discard": _discard}[action](Letters(broker, box), _wanted(flags), flags)


def ls(broker: str, boxes: Sequence[Box], *, of: str, in_json: bool) -> None:
    """How many letters there are in each box, by reason; `of` is what boxes are of: a stream, a sink."""
    rows = [row for box in boxes for row in _by_reason(of, box, Letters(broker, box))]
    if in_json:
        click.echo(json.dumps(rows))
        return
    width = max(24, *(len(box.of) + 2 for box in boxes)) if boxes else 24
    head = f"{of:<{width}}{'reason':<16}{'open':>8}{'replayed':>10}{'discarded':>11}  last"
    lines = [f"{row[of]:<{width}}{_line(row)}" for row in rows]
    click.echo("\n".join([head, *lines]) if rows else "There are none.")


def _wanted(flags: dict[str, Any]) -> Wanted:
    reason, places = flags["reason"], frozenset(flags["places"])
    return lambda one: (reason is None or one.code == reason) and (not places or one.place in places)


def _by_reason(of: str, box: Box, letters: Letters) -> Iterator[dict[str, Any]]:
    words, counts, last = letters.words(), defaultdict[str, Counter[str]](Counter), dict[str, Letter]()
    for one in letters.all():
        counts[one.code][_word(words, one)] += 1
        last[one.code] = max(one, last.get(one.code, one), key=lambda letter: letter.arrived_us)
    for code, of_code in sorted(counts.items()):
        newest = last[code]
        row: dict[str, Any] = {of: box.of, "reason": code}
        row |= {word: of_code[word] for word in ("open", "replayed", "discarded")}
        yield row | {"last": _when(newest), "place": newest.place, "said": newest.reason}


def _line(row: dict[str, Any]) -> str:
    counts = f"{row['open']:>8,}{row['replayed']:>10,}{row['discarded']:>11,}"
    return f"{row['reason']:<16}{counts}  {row['last']} at {row['place']}: {row['said']}"


def _show(letters: Letters, wanted: Wanted, flags: dict[str, Any]) -> None:
    words = letters.words()
    chosen = (one for one in letters.all() if wanted(one) and (flags["every"] or _word(words, one) == "open"))
    rows = _rows(letters, chosen if flags["out"] else islice(chosen, flags["limit"]), words)
    if flags["out"] is not None:
        click.echo(
            f"{_write(flags['out'], rows)} letters are in {flags['out']}. Mend their values, then replay --from it."
        )
    elif flags["in_json"]:
        click.echo(json.dumps(list(rows)))
    else:
        click.echo("\n\n".join(map(_text, rows)) or "There are none.")


def _rows(letters: Letters, chosen: Iterator[Letter], words: dict[str, Word]) -> Iterator[dict[str, Any]]:
    while some := list(islice(chosen, AT_ONCE)):
        headers = letters.headers(some)
        for one in some:
            yield _row(one, _word(words, one)) | {"headers": _given(headers.get(one.place))}


def _row(one: Letter, word: Word) -> dict[str, Any]:
    row = {"place": one.place, "state": word, "reason": one.reason, "arrived": _when(one)}
    return row | {"key": _readable(one.key), "value": _readable(one.value)}


def _given(headers: Headers | None) -> list[list[Any]] | None:
    """What a producer gave beside the value, as much as can be shown; None where the raw log has it no more."""
    if headers is None:
        return None
    return [[name[:SHOWN_BYTES], _readable(value and value[:SHOWN_BYTES])] for name, value in headers[:SHOWN_HEADERS]]


def _readable(content: bytes | None) -> str | dict[str, str] | None:
    """Bytes as text or, where they are none, in base64."""
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content or b"").decode()}


def _text(row: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"{row['place']}  {row['arrived']}  {row['state']}",
            f"  {row['reason']}",
            *(f"  {printable(name)}: {printable(_shown(given))}" for name, given in row["headers"] or ()),
            f"  {printable(_shown(row['value']))}",
        ]
    )


def _shown(content: str | dict[str, str] | None) -> str:
    """As text or, where it is none, in hex."""
    if isinstance(content, dict):
        return base64.b64decode(content["base64"])[:SHOWN_BYTES].hex(" ")
    return "" if content is None else content[:SHOWN_BYTES]


def _write(out: Path, rows: Iterator[dict[str, Any]]) -> int:
    count = 0
    with out.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


def _replay(letters: Letters, wanted: Wanted, flags: dict[str, Any]) -> None:
    mended = {} if flags["from_"] is None else dict(_mended(flags["from_"]))
    places = {one.place for one in letters.all() if wanted(one)}
    unknown = sorted(mended.keys() - places)
    if unknown:
        raise BadSetting(f"There is no letter {unknown[0]}. The same command with show and --every names them all.")
    chosen = places if flags["from_"] is None else mended.keys()
    count = letters.replay((one for one in letters.all() if one.place in chosen), mended)
    _tell(flags, {"replayed": count, "already": len(chosen) - count})


def _mended(file: Path) -> Iterator[tuple[str, bytes]]:
    """The place and the new value of each line: a JSON object, text, or what base64 stands for."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            yield row["place"], _bytes(row["value"])
        except (ValueError, KeyError, TypeError) as problem:
            raise BadSetting(
                f'{file} line {number} is no letter: {problem}. Write {{"place": "payments-0@42", "value": {{…}}}}.'
            ) from problem


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _discard(letters: Letters, wanted: Wanted, flags: dict[str, Any]) -> None:
    words = letters.words()
    chosen = {one.place for one in letters.all() if wanted(one) and _word(words, one) == "open"}
    if chosen and not flags["yes"]:
        click.confirm(f"Discard {len(chosen)} letters?", abort=True)
    _tell(flags, {"discarded": letters.discard(one for one in letters.all() if one.place in chosen)})


def _tell(flags: dict[str, Any], done: dict[str, int]) -> None:
    click.echo(json.dumps(done) if flags["in_json"] else ", ".join(f"{word} {count:,}" for word, count in done.items()))


def _word(words: dict[str, Word], one: Letter) -> Word:
    return words.get(one.place, "open")


def _when(one: Letter) -> str:
    return moment(one.arrived_us).isoformat(timespec="milliseconds")
