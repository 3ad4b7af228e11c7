"""Renders a row of the zoo as the source of an app, as a user could write it."""

from collections.abc import Iterator

from tests.apps.factors import Row
from tests.apps.naming import Names, names_of

TABLE = "sorts.csv"
NETWORK = "score.onnx"
SORTS = ("a", "b", "c", "é")
_SHAPES = {
    "tumbling": 'hr.Tumbling("4s")',
    "sliding": 'hr.Sliding("6s", every="2s")',
    "session": 'hr.Session("3s")',
    "global": "hr.Global()",
}
_EMITS = {"close": "", "update": ', emit="update"', "every": ', every="2s"', "none": ""}
_OWN_LATE = {
    "default": 'hr.Late("4s")',
    "drop": 'hr.Late("4s", then="drop")',
    "side_output": 'hr.Late("4s", then="side_output")',
    "update": 'hr.Late("4s", then="update", until="12s")',
}
_LATE = {
    "default": "",
    "drop": ', late=hr.Late("20s", then="drop")',
    "side_output": ', late=hr.Late("20s", then="side_output")',
    "update": ', late=hr.Late("20s", then="update", until="10m")',
}
_SINKS = {
    "postgres": 'hr.Postgres("env:ZOO_PG", table="zoo_rows")',
    "redis": 'hr.Redis("env:ZOO_REDIS", prefix="zoo")',
    "clickhouse": 'hr.ClickHouse("env:ZOO_CLICKHOUSE", table="zoo_rows")',
    "delta": 'hr.Delta("{folder}/sunk-delta")',
    "iceberg": 'hr.Iceberg("{folder}/sunk-iceberg", table="zoo_rows")',
    "kafka": 'hr.Kafka("zoo.rows")',
    "webhook": 'hr.Webhook("env:ZOO_HOOK")',
}
_TRAIN = """
def fit(frame):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.impute import SimpleImputer

    label = "good" if "good" in frame.columns else "label"
    return make_pipeline(SimpleImputer(), LogisticRegression()).fit(frame.drop(columns=label), frame[label])
"""
_LEARN = """
def online():
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()
"""


def app_text(row: Row, folder: str, is_changed: bool = False) -> str:
    """The module of an app; changed, it has a column, a feature and a window more."""
    return "\n".join(_Text(row, folder, is_changed).lines()) + "\n"


class _Text:
    def __init__(self, row: Row, folder: str, is_changed: bool) -> None:
        self.row, self.folder, self.is_changed = row, folder, is_changed
        self.names: Names = names_of(row)

    def lines(self) -> Iterator[str]:
        yield f'"""{self.row.domain.capitalize()}."""\n\nimport headrace as hr\n'
        yield self.main()
        if needs_other(self.row):
            yield self.other()
        if self.row["source"] == "outbox":
            yield 'outbox = hr.Outbox("env:ZOO_PG", table="zoo_outbox")'
        yield from self.function()
        yield from self.window()
        yield from self.join()
        yield from self.pattern()
        yield from (self.view(number) for number in range(len(self.row.views)))
        yield from self.model()
        yield from self.sinks()

    @property
    def columns(self) -> str:
        names = self.names
        more = ", extra string" if self.is_changed else ""
        return (
            f"{names.id} string, {names.key} string, zone bigint, peak boolean, since timestamp, "
            f"{names.amount} double, {names.sort} string, note string{more}"
        )

    def main(self) -> str:
        if self.row["source"] == "captured":
            return (
                f'main = hr.Changes("{self.names.main}", from_="env:ZOO_PG", table="public.zoo_table", '
                f'key="{self.names.id}",\n    schema="{self.columns}")'
            )
        from_ = {
            "nats": ', from_=hr.Nats("env:ZOO_NATS", stream="ZOO", subject="zoo")',
            "avro": ', format="avro", registry="env:ZOO_REGISTRY"',
        }.get(self.row["source"], "")
        return self.stream("main", self.names.main, from_)

    def other(self) -> str:
        return self.stream("other", self.names.other, "")

    def stream(self, variable: str, name: str, more: str) -> str:
        names, is_history = self.names, self.row["source"] == "history"
        columns = self.columns + ", at timestamp" + (", seen_at timestamp" if is_history else "")
        history = ', arrival="seen_at", partitions=1' if is_history else ""
        return (
            f'{variable} = hr.Stream("{name}",\n    schema="{columns}",\n    id="{names.id}", key="{names.key}", '
            f'time="at", check="{names.amount} >= 0"{history}{_LATE[self.row["late"]]}{more})'
        )

    def function(self) -> Iterator[str]:
        names = self.names
        if self.row["function"] == "derive":
            yield f'\n@hr.derive(main, name="{names.function}")\ndef kept(main):'
            yield f'    return main.where("`{names.amount}` < 90")\n'
        if self.row["function"] == "enrich":
            yield f'sorts = hr.Table("{TABLE}", key="sort_name", schema="sort_name string, factor double")'
            yield f'kept = hr.enrich("{names.function}", main, sorts, on=("{names.sort}", "sort_name"))'

    def window(self) -> Iterator[str]:
        kind = self.row["window"]
        if kind == "none":
            return
        of = "kept" if self.row["function"] == "derive" else "main"
        late = _OWN_LATE[self.row["late"]]
        yield (
            f'windows = hr.windowed("{self.names.window}", {of}, by={self.window_by()!r}, over={_SHAPES[kind]}, '
            f'late={late}{_EMITS[self.row["emit"]]},\n    n=hr.count(), total=hr.sum("{self.names.amount}"), '
            f'newest=hr.last("{self.names.sort}")){self.only_out()}'
        )

    def window_by(self) -> list[str]:
        """The key, or the entities of the views that read the windows."""
        entities = [self.row.view(n)["entity"] for n in (0, 1) if self.row.view(n)["reads"] == "windowed"]
        columns = [column for entity in entities for column in self.names.entity[entity]]
        return list(dict.fromkeys(columns)) or [self.names.key]

    def only_out(self) -> str:
        return "" if self.row["late"] == "side_output" else ".out"

    def join(self) -> Iterator[str]:
        late, key = _OWN_LATE[self.row["late"]], self.names.key
        how = {
            "join": f'hr.join("{self.names.join}", main, other, on="{key}", within=("3s", "3s"), kind="left"',
            "asof": f'hr.join_asof("{self.names.join}", main, other, on="{key}", tolerance="20s", wait="2s"',
        }.get(self.row["join"])
        if how:
            yield f'pairs = {how}, late={late}, prefix="other_"){self.only_out()}'

    def pattern(self) -> Iterator[str]:
        kind, names = self.row["pattern"], self.names
        if kind == "none":
            return
        late = _OWN_LATE["side_output" if self.row["late"] == "update" else self.row["late"]]
        asked = (
            f'hr.pattern("low, then high", by="{names.key}", within="8s", name="{names.pattern}", late={late})\n'
            f'    .step("low", where="{names.amount} < 40", keep=["{names.sort}"])\n'
            f'    .then("high", where="{names.amount} > 60")\n    .on(main)'
        )
        yield {
            "matches": f"runs = ({asked}).out",
            "timeouts": f"run_matches, run_timeouts, *_ = ({asked})",
            "sides": f"runs = ({asked})",
        }[kind]
        if kind == "timeouts":
            yield "del _"

    def view(self, number: int) -> str:
        row, names = self.row, self.names
        view = row.view(number)
        reads = view["reads"]
        stream = {"one": "main", "several": "[main, other]", "derived": "kept", "windowed": f"windows{self.out()}"}.get(
            reads, f"pairs{self.out()}"
        )
        by = names.entity[view["entity"]]
        amount, sort = ("total", "kind") if reads == "windowed" else (names.amount, names.sort)
        features = _features(view["form"], amount, sort, names.amount)
        if self.is_changed:
            features += [f'added = hr.max("{amount}", windows="2h")'] if number else ['added = hr.count(windows="2h")']
        by_text = repr(by[0]) if len(by) == 1 else repr(list(by))
        body = "\n".join(f"    {line}" for line in features)
        return f"\n@hr.features({stream}, by={by_text})\nclass {names.views[number]}:\n{body}\n"

    def out(self) -> str:
        return ".out" if self.row["late"] == "side_output" else ""

    def model(self) -> Iterator[str]:
        row, names = self.row, self.names
        if row["model"] == "none":
            return
        yield {"train": _TRAIN, "learn": _LEARN, "file": ""}[row["model"]]
        labels = ""
        if row["labels"] != "none":
            yield self.verdicts()
            within = {"short": "15s", "long": "40d"}[row["labels"]]
            labels = f', labels=hr.Labels(verdicts, value="good", within="{within}", default=False)'
        how = {"file": f'file="{NETWORK}"', "train": "train=fit", "learn": "learn=online"}[row["model"]]
        first = {"plain": "n_10m", "windows": "n_10m", "forever": "n_1h", "where": "big_10m", "request": "n_1h"}
        inputs = [first[row.view(0)["form"]], names.amount]
        yield (
            f'model = hr.Model("{names.model}", on=main, features=[{names.views[0]}], fields=["{names.amount}"],\n'
            f'    inputs={inputs!r}, {how}, budget="2s", thresholds={{"high": 50.0}}{labels})'
        )

    def verdicts(self) -> str:
        """The stream of labels of events, by their ids."""
        own_id = "change" if self.row["source"] == "captured" else self.names.id
        arrival = ', arrival="told_at", partitions=1' if self.row["source"] == "history" else ""
        return (
            f'verdicts = hr.Stream("{self.names.verdicts}",\n'
            f'    schema="{own_id} string, good boolean, told_at timestamp",\n'
            f'    id="{own_id}", key="{own_id}", time="told_at"{arrival})'
        )

    def sinks(self) -> Iterator[str]:
        if self.row["sink"] != "none":
            target = _SINKS[self.row["sink"]]
            yield f'first_sink = hr.Sink("every {self.names.main}", of=main, to={target}, delivery="exactly_once")'
        if self.row["second_sink"] != "none":
            target = _SINKS[self.row["second_sink"]].format(folder=self.folder)
            reads = self.row.view(0)["reads"]
            of = {"derived": "kept", "windowed": f"windows{self.out()}", "joined": f"pairs{self.out()}"}.get(
                reads, "main"
            )
            yield f'second_sink = hr.Sink("what {self.names.views[0]} reads", of={of}, to={target})'


def needs_other(row: Row) -> bool:
    """Whether an app has a second stream."""
    return row["join"] != "none" or "several" in row.reads


def _features(form: str, amount: str, sort: str, asked: str) -> list[str]:
    return {
        "plain": [
            'n = hr.count(windows="10m")',
            f'total = hr.sum("{amount}", windows="10m")',
            f'newest = hr.last("{sort}", windows="10m")',
        ],
        "windows": [
            'n = hr.count(windows=["1m", "10m", "1h"])',
            f'mean = hr.mean("{amount}", windows=["1m", "1h"])',
            f'kinds = hr.count(by="{sort}", windows="1h")',
        ],
        "forever": [
            'n = hr.count(windows=["1h", "forever"])',
            f'most = hr.max("{amount}", windows="forever")',
            f'sorts = hr.distinct("{sort}", windows="forever")',
        ],
        "where": [
            f'big = hr.count(where="{amount} > 50", windows="10m")',
            f"some = hr.sum(\"{amount}\", where=\"{sort} in ('a', 'é', 'result')\", windows=\"1h\")",
            f'middle = hr.quantile("{amount}", 0.5, windows="1h")',
        ],
        "request": [
            'n = hr.count(windows="1h")',
            f'mean = hr.mean("{amount}", windows="1h")',
            f'ratio = hr.request("{asked}", "double") / mean["1h"]',
        ],
    }[form]
