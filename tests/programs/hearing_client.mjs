// The TypeScript SDK's client, which shows every log message that it hears while a command hangs.
// PACKAGE SHELL-COMMAND COMMAND ARG…
const [root, asked, command, ...args] = process.argv.slice(2);
const { Client } = await import(`${root}/dist/index.mjs`);
const { StdioClientTransport } = await import(`${root}/dist/stdio.mjs`);

const client = new Client({ name: "typescript", version: "1" }, {});
const heard = [];
client.setNotificationHandler("notifications/message", ({ params }) => {
  heard.push({ level: params.level, logger: params.logger, message: params.data.message });
});
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const given = { command: asked, no_output_timeout_sec: 5 };
const said = await client.callTool({ name: "run", arguments: given });
console.log(JSON.stringify({ heard, status: said.structuredContent.status }));
await client.close();
