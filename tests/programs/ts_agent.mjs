// The agent of sdk_agent.py, on the official TypeScript SDK, whose folder is the first argument.
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(`${process.argv[2]}/dist/v1/stable/acp.js`).href);

async function perform(client, step, answers) {
  if (step.all) return { all: await Promise.all(step.all.map((one) => perform(client, one, answers))) };
  const params = { sessionId: "sess_1", ...step.params };
  if (params.terminalId?.startsWith("@")) {
    params.terminalId = answers[Number(params.terminalId.slice(1))].result.terminalId;
  }
  for (;;) {
    try {
      const result = await client.request(step.method, params);
      if ((result?.output ?? "").includes(step.until ?? "")) return { result };
    } catch (error) {
      return { error: { code: error.code, message: error.message } };
    }
    await sleep(20);
  }
}

acp
  .agent({ name: "script" })
  .onRequest("initialize", ({ params }) => ({ protocolVersion: params.protocolVersion }))
  .onRequest("session/new", () => ({ sessionId: "sess_1" }))
  .onRequest("session/prompt", async ({ params, client }) => {
    const answers = [];
    for (const step of JSON.parse(params.prompt[0].text)) {
      answers.push(await perform(client, step, answers));
    }
    const content = { type: "text", text: JSON.stringify(answers) };
    const update = { sessionUpdate: "agent_message_chunk", content };
    await client.notify("session/update", { sessionId: params.sessionId, update });
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
