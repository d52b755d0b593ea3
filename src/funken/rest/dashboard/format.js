// Numbers, times and durations as texts.

const UNITS = ["", "k", "M", "G", "T"];

function scaled(value, base, units) {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= base && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  const digits = size >= 100 || (unit === 0 && Number.isInteger(size)) ? 0 : size >= 10 ? 1 : 2;
  return `${value < 0 ? "-" : ""}${size.toFixed(digits)}${units[unit]}`;
}

export const count = (value) => (value == null ? "–" : scaled(value, 1000, UNITS));
export const rate = (value) => (value == null ? "–" : `${scaled(value, 1000, UNITS)}/s`);
export const bytes = (value) => (value == null ? "–" : scaled(value, 1024, [" B", " KB", " MB", " GB", " TB"]));
export const percent = (share) => `${Math.round(100 * share)} %`;

export function duration(ms) {
  if (ms == null || ms < 0) return "–";
  if (ms < 1000) return `${ms < 10 && !Number.isInteger(ms) ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const parts = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  const first = parts.findIndex((part) => part > 0);
  return parts.map((part, place) => `${part} ${["d", "h", "min", "s"][place]}`).slice(first, first + 2).join(" ");
}

const two = (number) => String(number).padStart(2, "0");

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function moment(ms) {
  if (ms == null || ms < 0) return "–";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

const END = 9e15; // about the end of time: MAX_WATERMARK loses digits in a double
const SINCE_1973 = 1e11;
const HALF_A_DAY = 4.32e7; // of a moment that is near, the time says all

export function watermark(ms) {
  if (ms == null) return "–";
  if (ms > END) return "end";
  if (Math.abs(ms) < SINCE_1973) return duration(Math.max(0, ms));
  return Math.abs(Date.now() - ms) < HALF_A_DAY ? clock(ms) : moment(ms);
}

const NAMED = 3;

// Names in a row, the first few of many.
export const several = (names, between = ", ") => names.slice(0, NAMED).join(between) + (names.length > NAMED ? ` and ${names.length - NAMED} more` : "");
