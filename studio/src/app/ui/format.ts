// Formats numbers for people: three significant digits and a unit.

/** `98.1 MB`, in powers of 1000, as in reports. */
export function formatBytes(bytes: number): string {
  return `${formatScaled(bytes, BYTE_UNITS)}`;
}

/** `1.20 M`, without a unit. */
export function formatCount(count: number): string {
  return formatScaled(count, COUNT_UNITS).trimEnd();
}

/** `1 module`, `2 modules`. */
export function pluralize(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

export function formatSeconds(seconds: number): string {
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  const rest = String(whole % 60).padStart(2, "0");
  return hours > 0
    ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}`
    : `${minutes}:${rest} min`;
}

/** `25 %` for 0.25. */
export function formatPercent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

/** The time of day of seconds since 1970, in the browser's locale. */
export function formatTime(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

/** `4.0×`, or that it stands still if there is no factor. */
export function formatFactor(factor: number | null | undefined): string {
  return factor === null || factor === undefined ? "stands still" : `${factor.toFixed(1)}×`;
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"] as const;
const COUNT_UNITS = ["", "k", "M", "G", "T", "P"] as const;

function formatScaled(value: number, units: readonly string[]): string {
  let [rest, unit] = [Number.isFinite(value) ? value : 0, 0];
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  const isWhole = unit === 0 || Math.abs(rest) >= 99.95;
  const digits = isWhole ? 0 : Math.abs(rest) >= 9.995 ? 1 : 2;
  return `${rest.toFixed(digits)} ${units[unit] ?? ""}`;
}
