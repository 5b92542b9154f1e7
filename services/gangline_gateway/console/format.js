// Numbers as people read them. GPUs come in thousandths, times in milliseconds since 1970, memory in MiB.

export const gpus = (milli) => {
  const whole = milli / 1000;
  return Number.isInteger(whole) ? String(whole) : whole.toFixed(whole < 10 ? 2 : 1).replace(/0+$/, "").replace(/\.$/, "");
};

/** Of the numbers in an object. */
export const sum = (amounts) => Object.values(amounts || {}).reduce((all, one) => all + one, 0);

export const counted = (count, one, many) => `${count} ${count === 1 || count === "1" ? one : many}`;

/** How long a job has waited, those included that still do. */
export const waited = (job) => (job.state === "waiting" ? Date.now() - (job.queued_ms || job.submitted_ms) : job.waited_ms || 0);

export function duration(ms) {
  const s = Math.round(ms / 1000);
  const tenths = (value) => String(+value.toFixed(1));
  if (s < 1) return ms > 0 ? "<1 s" : "0 s";
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${tenths(s / 3600)} h`;
  return `${tenths(s / 86_400)} d`;
}

const two = (number) => String(number).padStart(2, "0");
const day = (then) => `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
const time = (then) => `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`;

/** A moment where the reader is: the time of today, or date and time. */
export const clock = (ms) => {
  if (!ms) return "";
  const then = new Date(ms);
  return day(then) === day(new Date()) ? time(then) : `${day(then)} ${time(then)}`;
};

/** A sentence of the platform, which speaks of moments in UTC, with those moments where the reader is. */
export const local = (sentence) =>
  String(sentence || "").replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g, (said, date, hour) => {
    const then = new Date(`${date}T${hour}Z`);
    if (Number.isNaN(then.getTime()) || then.getTimezoneOffset() === 0) return said;
    return `${day(then)} ${time(then)}`;
  });

export const memory = (mib) => (mib >= 1024 ? `${(mib / 1024).toFixed(mib >= 10_240 ? 0 : 1)} GiB` : `${mib} MiB`);

export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "");

export const score = (millionths) => (millionths / 1e6).toLocaleString(undefined, { maximumFractionDigits: 3 });

/** When a job is expected to start, seen from now. */
export function expected(from_ms, to_ms, now = Date.now()) {
  if (from_ms === undefined || from_ms === null) return "";
  const from = Math.max(0, from_ms - now);
  const to = Math.max(0, (to_ms ?? from_ms) - now);
  if (from < 1000) return to < 1000 ? "now" : `within ${duration(to)}`;
  return `in ${duration(from)} to ${duration(to)}`;
}

/** How a dimension of a quota is called: gpu_milli of a model, memory, and so on. */
export function amount(dimension, value) {
  if (dimension.startsWith("gpu_milli") || dimension === "gpu" || dimension.startsWith("gpu:")) return gpus(value);
  if (dimension.includes("memory")) return memory(value);
  if (dimension === "cpu_milli") return gpus(value);
  if (dimension === "budget") return `${+(value / 3.6e9).toFixed(2)} GPU-hours`;
  return value.toLocaleString();
}

/** Rows as a spreadsheet reads them; a text that would be taken for a formula is not one. */
export function csv(columns, rows) {
  const cell = (value) => {
    let text = String(value ?? "");
    if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
