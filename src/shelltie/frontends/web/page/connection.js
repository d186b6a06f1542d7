// The token of a link, requests with it, and the one stream of events.

const KEPT = "shelltie-token";
let token = null;

// The token comes in the fragment, which no server is ever sent, and leaves the address bar at once.
export async function enter() {
  const given = new URLSearchParams(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  token = given.get("steer") ?? given.get("view") ?? sessionStorage.getItem(KEPT);
  if (given.has("once")) {
    const said = await send("POST", "/api/enter", { code: given.get("once") });
    token = said.token;
  }
  if (token) sessionStorage.setItem(KEPT, token);
  return token !== null;
}

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function send(method, path, body) {
  const headers = {};
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Refused(0, "OFFLINE", "shelltie web does not answer: is it still running?");
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, said.error ?? "", said.message ?? `it answered ${answer.status}`);
  return said;
}

export const get = (path) => send("GET", path);
export const post = (path, body) => send("POST", path, body ?? {});

const SILENCE = 15000; // a stream that says nothing for so long is dead: it says something each 5 s

// Calls `hear` with each message, for ever; `tell` with "live", "lost" or "shut out".
export async function listen(hear, tell) {
  let pause = 300;
  for (;;) {
    const ending = new AbortController();
    let watch = setTimeout(() => ending.abort(), SILENCE);
    try {
      const answer = await fetch("/api/events", { headers: { authorization: `Bearer ${token}` }, cache: "no-store", signal: ending.signal });
      if (answer.status === 401 || answer.status === 403 || answer.status === 421) {
        tell("shut out");
        return;
      }
      if (answer.ok) {
        pause = 300;
        tell("live");
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          clearTimeout(watch);
          watch = setTimeout(() => ending.abort(), SILENCE);
          const lines = (rest + value).split("\n");
          rest = lines.pop();
          for (const line of lines) hear(JSON.parse(line));
        }
      }
    } catch { /* it is gone; it is looked for again */ }
    clearTimeout(watch);
    tell("lost");
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 1.7, 5000);
  }
}
