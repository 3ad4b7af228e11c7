"""GET /: a page that lists what the server answers."""

from html import escape

from headrace.declare.app import App
from headrace.declare.model import Model
from headrace.declare.views import View
from headrace.serve.answers import Answer
from headrace.serve.http import Request

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{name} · Headrace</title>
<style>body {{ font: 16px/1.5 system-ui; max-width: 48rem; margin: 3rem auto; padding: 0 1rem }}</style>
<h1>{name}</h1>
<p><a href="/v2/health/ready">ready?</a> · <a href="/metrics">metrics</a></p>
{views}
</html>
"""
MODEL = """<h2>{name}</h2>
<p>a model of {stream}: <code>POST /predict/{name}</code></p>
<ul>{columns}</ul>"""
VIEW = """<h2>{name}</h2>
<p>by {by}, from {stream}: <code>POST /features/{name}</code></p>
<ul>{features}</ul>"""


class Index:
    """The page of one app; it never changes while the app runs."""

    def __init__(self, app: App) -> None:
        sections = [*map(_section, app.views), *map(_model, app.models)]
        page = PAGE.format(name=escape(app.name), views="\n".join(sections))
        self._answer = Answer(200, page.encode(), b"text/html; charset=utf-8")

    async def __call__(self, _request: Request) -> Answer:
        return self._answer


def _model(model: Model) -> str:
    columns = "".join(f"<li><code>{escape(name)}</code></li>" for name in model.vector.names)
    return MODEL.format(name=escape(model.name), stream=escape(model.stream.name), columns=columns)


def _section(view: View) -> str:
    features = "".join(f"<li><code>{escape(name)}</code></li>" for name in view.names)
    by, stream = escape(", ".join(view.by)), escape(" and ".join(stream.name for stream in view.streams))
    return VIEW.format(name=escape(view.name), by=by, stream=stream, features=features)
