// The TypeScript SDK's client, which gives up after MILLISECONDS (60000 unless it is told so). It
// calls run with something that takes longer, with and without progress, and follows both.
// PACKAGE MODE MILLISECONDS SHELL-COMMAND COMMAND ARG…
const [root, mode, milliseconds, asked, command, ...args] = process.argv.slice(2);
const { Client } = await import(`${root}/dist/index.mjs`);
const { StdioClientTransport } = await import(`${root}/dist/stdio.mjs`);

const client = new Client({ name: "typescript", version: "1" }, { versionNegotiation: { mode } });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
await client.listTools();

async function follow(onprogress) {
  const options = { timeout: Number(milliseconds), onprogress };
  async function call(name, given) {
    const said = await client.callTool({ name, arguments: given }, options);
    return said.structuredContent;
  }
  try {
    const first = await call("run", { command: asked });
    let printed = first.stdout;
    let last = first;
    while (first.status === "running" && !last.complete) {
      last = await call("terminal_continue", { sessionId: first.sessionId });
      printed += last.output;
    }
    return { status: first.status, printed, exitCode: last.exitCode };
  } catch (error) {
    return { gaveUp: String(error.message) };
  }
}

const reports = [];
const ends = await Promise.all([follow((report) => reports.push(report)), follow(undefined)]);
console.log(JSON.stringify({ ends, reports }));
await client.close();
