"""GET /: the dashboard, a page of a few static files that reads /live; without scripts, a list of the app's parts."""

from html import escape
from importlib.resources import files

import orjson

from headrace.declare.app import App
from headrace.declare.durations import UNITS_US
from headrace.declare.features.view import View
from headrace.declare.metric_catalog import METRIC_CATALOG
from headrace.declare.models.model import Model
from headrace.server.auth.scopes import Scope
from headrace.server.http.responses import Header, Response
from headrace.server.http.routing import Request, Route, get_route

FOLDER = "dashboard"
CONTENT_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
}
SECURITY_HEADERS: tuple[Header, ...] = (
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
MODEL_TEMPLATE = """<h3>{name}</h3>
<p>a model of {stream}: <code>POST /predict/{name}</code></p>
<ul>{columns}</ul>"""
VIEW_TEMPLATE = """<h3>{name}</h3>
<p>by {by}, from {stream}: <code>POST /features/{name}</code></p>
<ul>{features}</ul>"""


class StaticHandler:
    """Serves bytes that never change while the app runs."""

    def __init__(self, body: bytes, content_type: bytes) -> None:
        self._response = Response(200, body, content_type, SECURITY_HEADERS)

    async def __call__(self, _request: Request) -> Response:
        return self._response


def dashboard_routes(app: App) -> list[Route]:
    """The routes of the dashboard, one for each file."""
    folder = files("headrace.server.dashboard") / "static"
    page = (folder / "index.html").read_text()
    sections = "\n".join([*map(_render_view, app.views), *map(_render_model, app.models)])
    page = page.replace("{name}", escape(app.name)).replace("{sections}", sections)
    return [
        get_route("/", StaticHandler(page.encode(), CONTENT_TYPES["html"]), Scope.READ),
        get_route(
            f"/{FOLDER}/app.json", StaticHandler(orjson.dumps(describe_app(app)), b"application/json"), Scope.READ
        ),
        *(
            get_route(
                f"/{FOLDER}/{file.name}",
                StaticHandler(file.read_bytes(), CONTENT_TYPES[file.name.rpartition(".")[2]]),
                Scope.READ,
            )
            for file in folder.iterdir()
            if file.name != "index.html" and file.name.rpartition(".")[2] in CONTENT_TYPES
        ),
    ]


def describe_app(app: App) -> dict[str, object]:
    """The description of an app for the page: its parts, their definitions, and their objectives."""
    millisecond_us = UNITS_US["ms"]
    return {
        "name": app.name,
        "metrics": {family.name: {"unit": family.unit, "help": family.help} for family in METRIC_CATALOG.values()},
        "streams": [{"name": stream.name, "late": stream.late.then} for stream in app.streams],
        "views": [
            {
                "name": view.name,
                "by": list(view.by),
                "streams": [stream.name for stream in view.streams],
                "features": len(view.names),
                "freshness_ms": None if view.freshness_us is None else view.freshness_us / millisecond_us,
            }
            for view in app.views
        ],
        "models": [
            {
                "name": model.name,
                "stream": model.stream.name,
                "views": [view.name for view in model.views],
                "budget_ms": model.budget_us / millisecond_us,
                "labels": None if model.labels is None else model.labels.stream.name,
            }
            for model in app.models
        ],
    }


def _render_model(model: Model) -> str:
    columns = "".join(f"<li><code>{escape(name)}</code></li>" for name in model.vector.names)
    return MODEL_TEMPLATE.format(name=escape(model.name), stream=escape(model.stream.name), columns=columns)


def _render_view(view: View) -> str:
    features = "".join(f"<li><code>{escape(name)}</code></li>" for name in view.names)
    by, stream = escape(", ".join(view.by)), escape(" and ".join(stream.name for stream in view.streams))
    return VIEW_TEMPLATE.format(name=escape(view.name), by=by, stream=stream, features=features)
