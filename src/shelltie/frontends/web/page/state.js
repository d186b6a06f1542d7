// What is known: rows by their key, as the stream tells, and the clock of whoever sends them.

export const state = {
  rows: new Map(),
  role: null,
  stream: null,
  host: "",
  allowInput: false,
  skew: 0, // seconds that the server's clock is ahead of ours
  selected: null,
  connected: false,
};

const born = new Map(); // when a question appeared here

export const now = () => Date.now() / 1000 + state.skew;
export const steers = () => state.role === "steer" && state.connected;

export function take(message) {
  state.skew = message.now - Date.now() / 1000;
  if (message.all) state.rows.clear();
  for (const [key, row] of Object.entries(message.put)) state.rows.set(key, { ...row, key });
  for (const key of message.drop ?? []) state.rows.delete(key);
  for (const key of [...born.keys()]) if (!state.rows.has(key)) born.delete(key);
  for (const { key } of questions()) if (!born.has(key)) born.set(key, performance.now());
}

// Nobody has read what has just appeared: a key or a click that was meant for something else is not an answer.
export const ripe = (key) => performance.now() - (born.get(key) ?? Infinity) > 500;

const kind = (name) => [...state.rows.values()].filter((row) => row.key.startsWith(`${name}/`));

export const servers = () => kind("server");
export const questions = () => kind("question").sort((a, b) => a.late - b.late || a.askedAt - b.askedAt);
export const run = (key) => (key?.startsWith("run/") ? state.rows.get(key) : undefined);

export function runs(filter = "") {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (one) => `${one.command} ${who(one)} ${one.cwd} ${one.sessionId ?? ""} ${one.runId} ${one.state}`.toLowerCase();
  const found = kind("run").filter((one) => words.every((word) => text(one).includes(word)));
  const soonest = (one) => one.deadlines?.[0]?.at ?? Infinity;
  const live = found.filter((one) => !one.ended).sort((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0) || soonest(a) - soonest(b));
  const ended = found.filter((one) => one.ended).sort((a, b) => (b.endedAt ?? b.startedAt ?? 0) - (a.endedAt ?? a.startedAt ?? 0));
  return { live, ended };
}

export function who(one) {
  const server = state.rows.get(`server/${one.server}`);
  const client = (one.client || server?.client || "").replace(/ [\w.]+$/, "");
  return one.agent ? `${client} · ${one.agent}` : client || `pid ${server?.pid ?? "?"}`;
}
