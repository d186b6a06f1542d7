// Times and sizes as people read them.

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "none";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} m ${whole % 60} s` : `${whole / 60} m`;
  const hours = Math.floor(whole / 3600), minutes = Math.round((whole % 3600) / 60);
  return minutes ? `${hours} h ${minutes} m` : `${hours} h`;
}

export function clock(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  const pad = (number) => String(number).padStart(2, "0");
  if (whole >= 3600) return `${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
}

export function timeOfDay(epoch) {
  return new Date(epoch * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

export function when(epoch) {
  const date = new Date(epoch * 1000);
  const today = new Date().toDateString() === date.toDateString();
  const day = today ? "" : `${date.toLocaleDateString([], { month: "short", day: "numeric" })} `;
  return day + timeOfDay(epoch);
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  for (const [unit, limit] of [["kB", 1e6], ["MB", 1e9], ["GB", Infinity]]) {
    if (bytes < limit) return `${(bytes / (limit === Infinity ? 1e9 : limit / 1000)).toFixed(1)} ${unit}`;
  }
  return "";
}

export function home(path) {
  return path?.replace(/^\/(?:home\/[^/]+|root)(?=\/|$)/, "~") ?? "";
}

const ENDS = { killed: "stopped", spawn_failed: "not started", lost: "lost with its server", refused: "refused", released: "released" };

export function ending(run) {
  if (run.state === "finished") return run.exitCode === null || run.exitCode === undefined ? "ended" : `exit ${run.exitCode}`;
  if (run.state === "timed_out") return run.limit === "silence" ? "silent too long" : "time is up";
  return ENDS[run.state] ?? run.state;
}

export function mood(run) {
  if (!run.ended) return "runs";
  if (run.state === "finished") return run.exitCode === 0 ? "well" : "failed";
  return "cut";
}
