"""GET /v2/health/live and /v2/health/ready: is the server up, and does everything behind it run."""

from collections.abc import Callable

from headrace.serve.answers import Answer, json_answer
from headrace.serve.colleagues import Colleagues
from headrace.serve.http import Request


class Health:
    """Ready once no process of the server misses anything; anybody is told whether, who may read is told why not."""

    def __init__(self, colleagues: Colleagues, may_read: Callable[[Request], bool]) -> None:
        self._colleagues, self._may_read = colleagues, may_read

    async def live(self, _request: Request) -> Answer:
        """The server answers, so it is alive."""
        return json_answer({"live": True})

    async def ready(self, request: Request) -> Answer:
        """Ready, or a sentence for each thing that is missing."""
        missing = await self._colleagues.missing()
        if not missing:
            return json_answer({"ready": True})
        return json_answer({"ready": False, **({"missing": missing} if self._may_read(request) else {})}, 503)
