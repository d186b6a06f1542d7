"""HostedTerminals: mix-in for an ACP client built on the official Python SDK."""

import secrets
from collections.abc import Sequence
from typing import Any

from acp import RequestError
from acp.schema import (
    CreateTerminalResponse,
    EnvVariable,
    KillTerminalResponse,
    PermissionOption,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    ToolCallUpdate,
    WaitForTerminalExitResponse,
)

from shelltie.approval.broker import UNREACHED, Later
from shelltie.approval.question import Answer, Question
from shelltie.environment import child
from shelltie.errors import TerminalError
from shelltie.frontends.acp.methods import problem
from shelltie.frontends.acp.permission import permission_answer, request_for
from shelltie.frontends.acp.protocol import known
from shelltie.frontends.acp.terminal_host import TerminalHost


class HostedTerminals:
    """The five terminal methods of an `acp.Client`. Mix it in before the protocol class.

    Say `terminal=True` in the capabilities you send, and tell the host of each session:
    `host.open_session(session_id, cwd)`. A client that has `request_permission` is asked through
    it about commands that need a yes.
    """

    def __init__(self, host: TerminalHost) -> None:
        self.host = host

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Sequence[EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **meta: Any,  # noqa: ANN401  as the SDK has it
    ) -> CreateTerminalResponse:
        """See `TerminalHost`; so are the others.

        Raises: RequestError.
        """
        try:
            made = await self.host.create_terminal(
                session_id,
                command,
                args,
                [{"name": one.name, "value": one.value} for one in env or ()],
                cwd,
                output_byte_limit,
                channel=_ClientChannel(self, session_id),
                **known(meta),
            )
        except TerminalError as error:
            raise _refusal(error) from error
        return CreateTerminalResponse(terminal_id=made.terminal_id, field_meta=made.field_meta)

    async def terminal_output(
        self,
        session_id: str,
        terminal_id: str,
        **_: Any,  # noqa: ANN401
    ) -> TerminalOutputResponse:
        """Raises: RequestError."""
        try:
            seen = await self.host.terminal_output(session_id, terminal_id)
        except TerminalError as error:
            raise _refusal(error) from error
        ended = seen.exit_status
        return TerminalOutputResponse(
            output=seen.output,
            truncated=seen.truncated,
            exit_status=None
            if ended is None
            else TerminalExitStatus(exit_code=ended.exit_code, signal=ended.signal),
            field_meta=seen.field_meta,
        )

    async def wait_for_terminal_exit(
        self,
        session_id: str,
        terminal_id: str,
        **meta: Any,  # noqa: ANN401
    ) -> WaitForTerminalExitResponse:
        """Raises: RequestError."""
        try:
            ended = await self.host.wait_for_terminal_exit(session_id, terminal_id, **known(meta))
        except TerminalError as error:
            raise _refusal(error) from error
        return WaitForTerminalExitResponse(
            exit_code=ended.exit_code, signal=ended.signal, field_meta=ended.field_meta
        )

    async def kill_terminal(
        self,
        session_id: str,
        terminal_id: str,
        **meta: Any,  # noqa: ANN401
    ) -> KillTerminalResponse:
        """Raises: RequestError."""
        try:
            await self.host.kill_terminal(session_id, terminal_id, **known(meta))
        except TerminalError as error:
            raise _refusal(error) from error
        return KillTerminalResponse()

    async def release_terminal(
        self,
        session_id: str,
        terminal_id: str,
        **_: Any,  # noqa: ANN401
    ) -> ReleaseTerminalResponse:
        """Raises: RequestError."""
        try:
            await self.host.release_terminal(session_id, terminal_id)
        except TerminalError as error:
            raise _refusal(error) from error
        return ReleaseTerminalResponse()


class _ClientChannel:
    """Asks the person in front of the client, in the client's own way."""

    name = "the editor"

    def __init__(self, client: object, session_id: str) -> None:
        self._ask = getattr(client, "request_permission", None)
        self._session = session_id

    @property
    def can_ask(self) -> bool:
        """See `Channel`."""
        return self._ask is not None

    async def ask(self, question: Question) -> Answer | Later:
        """See `Channel`. A client that answers with an error has asked nobody."""
        assert self._ask is not None
        hidden = child.sift(child.inherited()).secrets
        asked = await request_for(question, self._session, secrets.token_hex(16), hidden)
        try:
            said = await self._ask(
                session_id=self._session,
                tool_call=ToolCallUpdate.model_validate(asked["toolCall"]),
                options=[PermissionOption.model_validate(option) for option in asked["options"]],
            )
        except RequestError:
            return UNREACHED
        return permission_answer(asked, said.model_dump(by_alias=True), self.name) or UNREACHED


def _refusal(error: TerminalError) -> RequestError:
    answer = problem(error)
    return RequestError(answer.code, answer.message, answer.data)
