"""GET /v2/health/live and /v2/health/ready: is the server up, and does everything behind it run."""

from headrace.serve.answers import Answer, json_answer
from headrace.serve.colleagues import Colleagues
from headrace.serve.http import Request


class Health:
    """Ready once no process of the server misses anything."""

    def __init__(self, colleagues: Colleagues) -> None:
        self._colleagues = colleagues

    async def live(self, _request: Request) -> Answer:
        """The server answers, so it is alive."""
        return json_answer({"live": True})

    async def ready(self, _request: Request) -> Answer:
        """Ready, or a sentence for each thing that is missing."""
        missing = await self._colleagues.missing()
        return json_answer({"ready": False, "missing": missing}, 503) if missing else json_answer({"ready": True})
