"""GET /v2/health/live and /v2/health/ready: is the server up, and does everything behind it run."""

from headrace.declare.app import App
from headrace.log.progress import ProgressBoard
from headrace.serve.answers import Answer, json_answer
from headrace.serve.backfilled import Histories
from headrace.serve.http import Request
from headrace.store.online import Online


class Health:
    """Ready once the store has caught up and every query runs."""

    def __init__(self, app: App, online: Online, board: ProgressBoard, histories: Histories | None) -> None:
        self._app, self._online, self._board, self._histories = app, online, board, histories

    async def live(self, _request: Request) -> Answer:
        """The server answers, so it is alive."""
        return json_answer({"live": True})

    async def ready(self, _request: Request) -> Answer:
        """Ready, or a sentence for each thing that is missing."""
        missing = [*await self._online.missing(), *self._board.missing(self._app.streams, self._app.views)]
        if self._histories is not None:
            missing += await self._histories.missing(self._app.views)
        return json_answer({"ready": False, "missing": missing}, 503) if missing else json_answer({"ready": True})
