"""`headrace train APP VIEW… --spine FILE --out FILE`: a point-in-time training set."""

import json
from pathlib import Path
from typing import Any

import click

from headrace.cli.batch import batch_session
from headrace.declare.app import load_app


@click.command()
@click.argument("app")
@click.argument("views", nargs=-1, required=True)
@click.option("--spine", required=True, metavar="FILE", help="Rows of entity and time, with a label or whatever else.")
@click.option("--out", required=True, metavar="FILE", help="Where to write them with one column more a feature.")
@click.option("--as-of", type=click.Choice(["arrival", "event"]), default="arrival", show_default=True)
@click.option("--time", metavar="COLUMN", help="The spine's column of times; else that of the first view's stream.")
@click.option("--lake", default=".headrace/lake", show_default=True, metavar="DIR", help="The lake with the events.")
@click.option("--broker", metavar="HOST:PORT", help="Read the events straight from this log instead.")
@click.option("--spark", metavar="MASTER", help="Your Spark master; without it, Spark runs here.")
@click.option("--json", "in_json", is_flag=True, help="Say what was found as JSON.")
def train(app: str, views: tuple[str, ...], in_json: bool, **flags: Any) -> None:
    """Give each row of a spine the features of APP's VIEWS as they were at its time."""
    # Imported here: only this command pays for Spark.
    from headrace.lake.spines import SpineFiles, train_files
    from headrace.lake.training import LOG

    declared = load_app(app)
    wanted = [declared.view(name) for name in views]
    files = SpineFiles(Path(flags["spine"]), Path(flags["out"]), flags["time"])
    files.require_known()
    source = f"{LOG}{flags['broker']}" if flags["broker"] else flags["lake"]
    click.echo(f"headrace: reading {files.spine} and the events of {source}", err=True)
    with batch_session(flags["spark"]) as spark:
        found = train_files(spark, files, wanted, flags["as_of"], source)
    click.echo(json.dumps({"out": str(files.out), "views": found}) if in_json else _text(found, files.out))


def _text(found: dict[str, dict[str, int]], out: Path) -> str:
    lines = [
        f"{view}: rows {', '.join(f'{said} {count:,}' for said, count in counts.items() if count)}"
        for view, counts in found.items()
    ]
    return "\n".join([*lines, f"wrote {out}"])
