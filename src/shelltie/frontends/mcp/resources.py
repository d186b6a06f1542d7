"""MCP resources: the policy, a client's sessions and its last results."""

import json
import re
from collections.abc import Callable

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.assemble_parts import profiles
from shelltie.basics.lazy_regex import lazy
from shelltie.errors import UnknownSession
from shelltie.frontends.mcp.recent_runs import Recent
from shelltie.frontends.reports.policy_report import policy_report
from shelltie.limits.policy_file import PolicyFile
from shelltie.output.redact import Redactor, both_ends
from shelltie.output.text import excerpt
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.config import Config
from shelltie.verdict import Rating

POLICY, RUNS = "shelltie://policy", "shelltie://runs"
_SESSION = lazy(r"shelltie://sessions/([\w-]{1,64})", re.ASCII)
_RUN = lazy(r"shelltie://runs/([0-9A-Z]{1,64})", re.ASCII)
_TEXT, _JSON = "text/plain", "application/json"
_NOT_FOUND = -32002  # what a resource that is not there is called before 2026
_TITLE_MAX = 60
_Found = tuple[str, Callable[[], str]]  # its type, and how to read it

TEMPLATES = [
    ResourceTemplate(
        uri_template="shelltie://sessions/{sessionId}",
        name="session-output",
        title="Output of a session",
        description="What a session has printed, cleaned, its middle left out if it is long. "
        "Reading it moves no position and waits for nothing.",
        mime_type=_TEXT,
    ),
    ResourceTemplate(
        uri_template="shelltie://runs/{runId}",
        name="run-result",
        title="Result of a run",
        description="The answer of one of your last 20 runs, once more.",
        mime_type=_JSON,
    ),
]


def session_uri(session: str) -> str:
    """Where the output of a session is."""
    return f"shelltie://sessions/{session}"


class ClientResources:
    """Everything that can be read; each client sees its own."""

    def __init__(
        self, sessions: Sessions, recent: Recent, config: Config, policy: PolicyFile
    ) -> None:
        self._sessions = sessions
        self._recent = recent
        self._config = config
        self._policy = policy
        self._seen = (policy.current(), policy.status)

    def of(self, owner: str) -> list[Resource]:
        """What there is now."""
        return [
            Resource(
                uri=POLICY,
                name="policy",
                title="Policy in force",
                description="How long each kind of command may take, and what is asked about.",
                mime_type=_JSON,
            ),
            Resource(
                uri=RUNS,
                name="runs",
                title="Recent runs",
                description="Your last 20 runs, the newest first.",
                mime_type=_JSON,
            ),
            *map(_listed, self._sessions.owned_by(owner)),
        ]

    def has(self, uri: str, owner: str) -> bool:
        """Whether this client can read it."""
        return self._find(uri, owner) is not None

    def session(self, uri: str, owner: str) -> Session | None:
        """The session whose output it is, if it is one's."""
        match = _SESSION.fullmatch(uri)
        if match is None:
            return None
        try:
            return self._sessions.get(match[1], owner)
        except UnknownSession:
            return None

    def read(self, uri: str, owner: str, protocol: str) -> TextResourceContents:
        """What it holds now.

        Raises: MCPError if there is no such thing for this client.
        """
        mime_type, content = self.must_have(uri, owner, protocol)
        text = content().encode("utf-8", "replace").decode()
        return TextResourceContents(uri=uri, mime_type=mime_type, text=text)

    def must_have(self, uri: str, owner: str, protocol: str) -> _Found:
        """What it is.

        Raises: MCPError, in the words of the client's protocol.
        """
        found = self._find(uri, owner)
        if found is None:
            code = INVALID_PARAMS if protocol in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND
            advice = "resources/list has those that exist; sessions go when their end was read"
            raise MCPError(code, f"Resource not found: {advice}", {"uri": uri})
        return found

    def policy_changed(self) -> bool:
        """Whether it is another one than when this was asked last."""
        seen, self._seen = self._seen, (self._policy.current(), self._policy.status)
        return seen != self._seen

    def _find(self, uri: str, owner: str) -> _Found | None:
        if uri == POLICY:
            return _JSON, lambda: _json(self._policy_now())
        if uri == RUNS:
            return _JSON, lambda: _json([one.brief() for one in self._recent.of(owner)])
        if match := _RUN.fullmatch(uri):
            run = self._recent.find(match[1], owner)
            return None if run is None else (_JSON, lambda: _json(run.result))
        session = self.session(uri, owner)
        return None if session is None else (_TEXT, lambda: self._output(session))

    def _policy_now(self) -> dict[str, object]:
        decided = {
            name: {str(rating): str(profile.for_rating(rating)) for rating in Rating}
            for name, profile in profiles(self._config).items()
        }
        return {**policy_report(self._policy), "safety": decided}

    def _output(self, session: Session) -> str:
        run, half = session.run, self._config.output.shown // 2
        redactor = Redactor(run.surroundings.secrets) if self._config.output.redact else None
        view = both_ends(run.output, None, half, half, redactor)
        text = excerpt(view.head, view.tail, view.omitted, how_to_read="terminal_output")
        return text if redactor is None else redactor.text(text)


def _listed(session: Session) -> Resource:
    command = session.run.command.text
    return Resource(
        uri=session_uri(session.id),
        name=session.id,
        title=f"{session.id}: {command[:_TITLE_MAX]}",
        description="What this session has printed.",
        mime_type=_TEXT,
    )


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1)
