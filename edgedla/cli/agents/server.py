"""The server: tools and the reports they made, over standard input and output, by the SDK of the Model Context Protocol."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Sequence, Tuple

from edgedla.cli.agents.tools import TOOLS, Answer, answer, shortened
from edgedla.errors import EnvironmentMissing
from edgedla.io.documents import schema
from edgedla.version import version

#: Answers whose reports can still be read, the latest ones.
KEPT = 32
INSTRUCTIONS = (
    "edgedla answers whether and how a neural network (ONNX) runs on the DLA of an NVIDIA Jetson, without a board. Begin with check; "
    "follow its remedies with fix; compare modules with compare. Times are predictions with a spread: say so when you pass them on. "
    "Unknown means unknown. The whole document and page of an answer are resources that its result links to."
)
try:
    import anyio
    import mcp_types as types
    from anyio import to_process
    from mcp.server.lowlevel.server import Server
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError
except ImportError as e:
    raise EnvironmentMissing(
        "the SDK of the Model Context Protocol is missing",
        where="mcp 2",
        hint="with Python 3.10 or newer: python3 -m pip install 'edgedla[mcp]'",
    ) from e


class Agents:
    """The handlers of one server.

    Args:
        roots: real paths of the folders below which models may lie. limit_s: seconds for one call.
    """

    def __init__(self, roots: Sequence[str], limit_s: float) -> None:
        self._roots, self._limit_s = tuple(roots), limit_s
        self._reports: Dict[str, Tuple[str, str]] = {}
        self._count = 0
        # One after another: each takes all the memory it needs.
        self._one = anyio.CapacityLimiter(1)

    def server(self) -> Any:
        return Server(
            "edgedla",
            version=version(),
            instructions=INSTRUCTIONS,
            on_list_tools=self.tools,
            on_call_tool=self.call,
            on_list_resources=self.resources,
            on_read_resource=self.read,
        )

    async def tools(self, _: Any, __: Any) -> Any:
        hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    title=tool.title,
                    description=tool.description,
                    input_schema=tool.takes,
                    output_schema=schema(tool.document),
                    annotations=hints,
                )
                for name, tool in TOOLS.items()
            ]
        )

    async def call(self, _: Any, params: Any) -> Any:
        tool, given = TOOLS.get(params.name), dict(params.arguments or {})
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {params.name[:80]!r}; tools: {', '.join(TOOLS)}")
        wrong = _misfit(given, tool.takes)
        if wrong:
            return _error(wrong)
        try:
            with anyio.fail_after(self._limit_s):
                made, wrong = await to_process.run_sync(
                    answer, params.name, given, self._roots, cancellable=True, limiter=self._one
                )
        except TimeoutError:
            return _error(f"not finished after {self._limit_s:g} s; `edgedla mcp --limit SECONDS` allows more")
        except Exception as e:
            # The process was killed, as for memory, or a bug in edgedla: the server goes on.
            return _error(f"a bug in edgedla, or the process was ended: {type(e).__name__}: {e}"[:2000])
        return _error(wrong) if made is None else self._result(params.name, made)

    def _result(self, name: str, made: Answer) -> Any:
        document, text, page = made
        self._count += 1
        forms = {"json": (json.dumps(document, indent=1), "application/json"), "html": (page, "text/html")}
        links = []
        for ending, (body, mime) in forms.items():
            if body:
                uri = f"edgedla://reports/{self._count}-{name}.{ending}"
                self._reports[uri] = (body, mime)
                links.append(types.ResourceLink(uri=uri, name=uri.rsplit("/", 1)[1], mime_type=mime, size=len(body.encode())))
        for old in list(self._reports)[: max(len(self._reports) - KEPT, 0)]:
            del self._reports[old]
        content: List[Any] = [types.TextContent(text=text), *links]
        return types.CallToolResult(content=content, structured_content=shortened(document, links[0].uri))

    async def resources(self, _: Any, __: Any) -> Any:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=uri.rsplit("/", 1)[1], mime_type=mime, size=len(body.encode()))
                for uri, (body, mime) in self._reports.items()
            ]
        )

    async def read(self, _: Any, params: Any) -> Any:
        uri = str(params.uri)
        if uri not in self._reports:
            raise MCPError(types.INVALID_PARAMS, f"no report {uri[:200]!r}: the latest {KEPT} are kept")
        body, mime = self._reports[uri]
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=body)])


def _misfit(given: Dict[str, Any], takes: Dict[str, Any]) -> str:
    """What does not fit a tool's schema; "" if everything does."""
    import jsonschema

    for fault in sorted(jsonschema.Draft202012Validator(takes).iter_errors(given), key=str):
        # The message of a value that is too long holds it.
        said = fault.message if len(fault.message) < 300 else f"too long: {fault.validator} is {fault.validator_value}"
        return f"arguments: {'.'.join(map(str, fault.absolute_path)) or 'as a whole'}: {said}"
    return ""


def _error(text: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def serve(roots: Sequence[str], limit_s: float) -> None:
    """Answers until standard input ends."""
    agents = Agents([os.path.realpath(root) for root in roots], limit_s)
    # Python looks for modules in the current folder of `python -m`, as the calls' processes are started: not in a user's project.
    os.chdir("/")

    async def run() -> None:
        async with stdio_server() as (read, write):
            server = agents.server()
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
