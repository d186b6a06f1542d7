// The TypeScript SDK's client: lists our tools and runs a command, in the era it is told.
// PACKAGE MODE COMMAND ARG…  or  PACKAGE MODE URL TOKEN
const [root, mode, target, ...rest] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(`${root}/dist/index.mjs`);
const { StdioClientTransport } = await import(`${root}/dist/stdio.mjs`);

const headers = { Authorization: `Bearer ${rest[0]}` };
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } })
  : new StdioClientTransport({ command: target, args: rest, env: process.env });
const client = new Client({ name: "typescript", version: "1" }, { versionNegotiation: { mode } });
await client.connect(transport);
const { tools } = await client.listTools();
const said = await client.callTool({ name: "run", arguments: { command: "echo hi" } });
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
    tools: tools.map((tool) => tool.name),
    stdout: said.structuredContent.stdout,
  }),
);
await client.close();
