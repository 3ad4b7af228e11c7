"""GET /: the dashboard, a page of a few files of our own that listens to /live; and, without scripts, what there is."""

from html import escape
from importlib.resources import files

import orjson

from headrace.declare.app import App
from headrace.declare.catalogue import CATALOGUE
from headrace.declare.durations import UNITS_US
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.serve.answers import Answer, Header
from headrace.serve.http import Request, Route, get
from headrace.serve.scopes import Scope

FOLDER = "dashboard"
TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
}
SAFE: tuple[Header, ...] = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
MODEL = """<h3>{name}</h3>
<p>a model of {stream}: <code>POST /predict/{name}</code></p>
<ul>{columns}</ul>"""
VIEW = """<h3>{name}</h3>
<p>by {by}, from {stream}: <code>POST /features/{name}</code></p>
<ul>{features}</ul>"""


class Fixed:
    """Bytes that never change while the app runs."""

    def __init__(self, body: bytes, content_type: bytes) -> None:
        self._answer = Answer(200, body, content_type, SAFE)

    async def __call__(self, _request: Request) -> Answer:
        return self._answer


def page_of(app: App) -> list[Route]:
    """The dashboard of an app, file by file."""
    folder = files("headrace.serve") / FOLDER
    page = (folder / "index.html").read_text()
    sections = "\n".join([*map(_section, app.views), *map(_model, app.models)])
    page = page.replace("{name}", escape(app.name)).replace("{sections}", sections)
    return [
        get("/", Fixed(page.encode(), TYPES["html"]), Scope.READ),
        get(f"/{FOLDER}/app.json", Fixed(orjson.dumps(described(app)), b"application/json"), Scope.READ),
        *(
            get(f"/{FOLDER}/{file.name}", Fixed(file.read_bytes(), TYPES[file.name.rpartition(".")[2]]), Scope.READ)
            for file in folder.iterdir()
            if file.name != "index.html" and file.name.rpartition(".")[2] in TYPES
        ),
    ]


def described(app: App) -> dict[str, object]:
    """What the page has to know of an app: its parts, what each is made of, and what was promised."""
    millis = UNITS_US["ms"]
    return {
        "name": app.name,
        "metrics": {one.name: {"unit": one.unit, "help": one.help} for one in CATALOGUE.values()},
        "streams": [{"name": stream.name, "late": stream.late.then} for stream in app.streams],
        "views": [
            {
                "name": view.name,
                "by": list(view.by),
                "streams": [stream.name for stream in view.streams],
                "features": len(view.names),
                "freshness_ms": None if view.freshness_us is None else view.freshness_us / millis,
            }
            for view in app.views
        ],
        "models": [
            {
                "name": model.name,
                "stream": model.stream.name,
                "views": [view.name for view in model.views],
                "budget_ms": model.budget_us / millis,
                "labels": None if model.labels is None else model.labels.stream.name,
            }
            for model in app.models
        ],
    }


def _model(model: Model) -> str:
    columns = "".join(f"<li><code>{escape(name)}</code></li>" for name in model.vector.names)
    return MODEL.format(name=escape(model.name), stream=escape(model.stream.name), columns=columns)


def _section(view: View) -> str:
    features = "".join(f"<li><code>{escape(name)}</code></li>" for name in view.names)
    by, stream = escape(", ".join(view.by)), escape(" and ".join(stream.name for stream in view.streams))
    return VIEW.format(name=escape(view.name), by=by, stream=stream, features=features)
