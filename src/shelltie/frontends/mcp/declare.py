"""How a tool is declared: its name, what it takes and answers, and what a client may expect."""

from enum import Enum

from mcp_types import Tool, ToolAnnotations

from shelltie.frontends.mcp.schema import Schema


class Acts(Enum):
    """What a tool can do: read, make something of ours, end it, or whatever a command does.

    Each is whether it destroys, whether to call it twice changes nothing more, and whether it
    reaches beyond this server.
    """

    READS = (False, True, False)
    OPENS = (False, False, False)
    ENDS = (True, True, False)
    RUNS = (True, False, True)


def declare(
    name: str, title: str, description: str, acts: Acts, takes: Schema, answers: Schema
) -> Tool:
    """A tool whose hints are true to what it does."""
    destroys, repeatable, beyond = acts.value
    return Tool(
        name=name,
        title=title,
        description=description,
        input_schema=takes,
        output_schema=answers,
        annotations=ToolAnnotations(
            title=title,
            read_only_hint=acts is Acts.READS,
            destructive_hint=destroys,
            idempotent_hint=repeatable,
            open_world_hint=beyond,
        ),
    )


def strict(properties: Schema, *required: str) -> Schema:
    """An object that has these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }
