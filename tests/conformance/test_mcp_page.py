"""What the page about the tools says is what they answer."""

import pytest

from tests.conftest import Open
from tests.mcp_tools_page import PAGE, SETTINGS, render, with_tools


@pytest.mark.proves("S3-64")
async def test_the_page_has_every_tool_with_a_real_request_and_answer(open_terminal: Open) -> None:
    async with open_terminal(**SETTINGS) as terminal:
        part = await render(terminal)

    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tools(page, part), "run scripts/mcp-tools"
