"""Routes of the web page: its files, the event stream, history and what a person does."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shelltie.errors import ControlRefused, NoServerAnswer, TerminalError
from shelltie.frontends.control.live_rows import LiveRows, Row
from shelltie.frontends.dry_run import DryRun
from shelltie.frontends.web.access import PageRole, PageTokens, refuse, role_of
from shelltie.frontends.web.figures import health_of, policy_figures
from shelltie.frontends.web.past import past_rows, past_run, replay, timeline
from shelltie.frontends.web.steering import Steering, person_behind
from shelltie.frontends.web.stream import PageStream
from shelltie.frontends.web.trials import decide_trial, trial_report
from shelltie.settings import paths
from shelltie.settings.layers import load

_PAGE = Path(__file__).with_name("page")
_XTERM = Path(__file__).with_name("xterm")  # of npm, where the package was built with it
_KINDS = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
}
_STREAMS_MAX = 32
_VIEW_ONLY = "this link only shows. The link that steers is in the terminal of `shelltie web`"
_STATUS = {"REFUSED": 403, "INVALID_PARAMETERS": 409, "RUN_NOT_FOUND": 409}

Given = Mapping[str, Any]
Read = Callable[[str, Mapping[str, str]], dict[str, Any]]
Steer = Callable[[Given, int], Awaitable[Mapping[str, object]]]


class PageRoutes:
    """Answers requests that have been let in."""

    def __init__(
        self,
        live: LiveRows,
        steering: Steering,
        tokens: PageTokens,
        journal: Path,
        about: Row,
    ) -> None:
        self._live = live
        self._steering = steering
        self._tokens = tokens
        self._journal = journal
        self._streams: dict[str, PageStream] = {}
        files = [*_PAGE.iterdir(), *_XTERM.glob("xterm.*")]
        self._files = {path.name: path.read_bytes() for path in files}
        self._about = {**about, "terminal": "xterm.mjs" in self._files}

    def app(self) -> Starlette:
        """All of it as an ASGI application."""
        steering, journal = self._steering, self._journal
        return Starlette(
            routes=[
                Route("/", self.file),
                Route("/page/{name}", self.file),
                Route("/api/enter", self.enter, methods=["POST"]),
                Route("/api/events", self.events),
                Route("/api/follow", self.follow, methods=["POST"]),
                Route("/api/explain", self.explain, methods=["POST"]),
                Route("/api/history", self.recorded(lambda _, q: {"runs": past_rows(journal, q)})),
                Route("/api/history/{id}", self.recorded(lambda name, _: past_run(journal, name))),
                Route("/api/replay/{id}", self.recorded(lambda name, _: replay(journal, name))),
                Route("/api/timeline", self.recorded(lambda _, query: timeline(journal, query))),
                Route("/api/policy", self.recorded(lambda _, __: policy_figures(journal))),
                Route("/api/trials/{id}", self.trial),
                Route("/api/health", self.health),
                *(
                    Route(f"/api/{name}", self.steered(do), methods=["POST"])
                    for name, do in {
                        "answer": steering.answer,
                        "extend": steering.extend,
                        "kill": steering.kill,
                        "stop-all": steering.stop_all,
                        "type": steering.type,
                        "resize": steering.resize,
                        "trial": lambda given, _: decide_trial(given),
                    }.items()
                ),
            ]
        )

    async def file(self, request: Request) -> Response:
        """A file of the page. It has nothing in it that is anybody's."""
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            return refuse(404, "NOT_FOUND", "there is no such page")
        return Response(self._files[name], media_type=_KINDS[Path(name).suffix])

    async def enter(self, request: Request) -> Response:
        """Change the code of a link for the token that it stands for."""
        role = self._tokens.take_code(str((await _json(request)).get("code")))
        try:
            if role is not None:
                await person_behind(request)
        except ControlRefused as error:
            return refuse(403, "REFUSED", str(error))
        if role is None:
            return refuse(401, "CODE", "this link was used before, or is too old")
        return JSONResponse({"token": self._tokens.token(role)})

    async def events(self, request: Request) -> Any:  # noqa: ANN401  an ASGI application
        """Everything as it happens, until the page leaves."""
        if len(self._streams) >= _STREAMS_MAX:
            return refuse(429, "BUSY", f"{_STREAMS_MAX} pages are open already: close one")
        stream = PageStream(self._live, role_of(request), self._about)

        async def answer(*exchange: Any) -> None:  # noqa: ANN401  ASGI's three
            self._streams[stream.id] = stream
            self._note_steerers()
            try:
                await stream(*exchange)
            finally:
                del self._streams[stream.id]
                self._note_steerers()

        return answer

    def _note_steerers(self) -> None:
        """Servers wait for an answer while somebody is there who can give one."""
        self._live.steered = any(one.role is PageRole.STEER for one in self._streams.values())

    async def follow(self, request: Request) -> Response:
        """Have a stream send the output of this run."""
        given = await _json(request)
        stream, run = self._streams.get(str(given.get("stream"))), given.get("run")
        if stream is None:
            return refuse(409, "STREAM", "there is no such stream: connect again")
        stream.follow(run if isinstance(run, str) else None)
        return JSONResponse({})

    def recorded(self, read: Read) -> Callable[[Request], Awaitable[Response]]:
        """Something on record, read in a thread: the disk may be slow."""

        async def answer(request: Request) -> Response:
            name, query = str(request.path_params.get("id")), dict(request.query_params)
            try:
                return JSONResponse(await anyio.to_thread.run_sync(read, name, query))
            except TerminalError as error:
                return refuse(404 if "id" in request.path_params else 409, error.code, str(error))

        return answer

    async def trial(self, request: Request) -> Response:
        """What a command on trial has changed."""
        try:
            return JSONResponse(await trial_report(request.path_params["id"]))
        except TerminalError as error:
            return refuse(404, error.code, str(error))

    async def health(self, _: Request) -> Response:
        """Every server, by its own word."""
        return JSONResponse({"servers": await health_of([*self._live.servers.values()])})

    async def explain(self, request: Request) -> Response:
        """What would happen to a command in our directory; nothing is run."""
        command = str((await _json(request)).get("command") or "")
        try:
            place = paths.here()
            answer = await DryRun(load(place), place).one(command)
        except TerminalError as error:
            return refuse(409, error.code, str(error))
        return JSONResponse(answer.to_json())

    def steered(self, do: Steer) -> Callable[[Request], Awaitable[Response]]:
        """Something that only a person with the link to steer may do."""

        async def perform(request: Request) -> Response:
            if role_of(request) is not PageRole.STEER:
                return refuse(403, "VIEW_ONLY", _VIEW_ONLY)
            try:
                behalf = await person_behind(request)
                return JSONResponse(dict(await do(await _json(request), behalf)))
            except NoServerAnswer as error:
                gone = "its server has ended, and what it ran with it"
                told = str(error) if error.reply else gone
                return refuse(_STATUS.get(error.reply, 410), error.reply or "GONE", told)
            except TerminalError as error:
                return refuse(_STATUS.get(error.code, 409), error.code, str(error))

        return perform


async def _json(request: Request) -> Given:
    try:
        given = await request.json()
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
