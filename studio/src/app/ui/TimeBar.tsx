// A bar of time shares: busy, starved and blocked.

interface TimeBarProps {
  readonly busy: number;
  readonly starved: number;
  readonly blocked: number;
}

/** Time shares in percent: busy, starved (waits for input), blocked (waits for room). */
export function TimeBar({ busy, starved, blocked }: TimeBarProps) {
  const label = `busy ${busy} %, starved ${starved} %, blocked ${blocked} %`;
  return (
    <svg className="time-bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img">
      <title>{label}</title>
      <rect className="starved" width={100} height={8} />
      <rect className="busy" width={busy} height={8} />
      <rect className="blocked" x={100 - blocked} width={blocked} height={8} />
      <rect className="blocked-mark" x={100 - blocked} y={5} width={blocked} height={3} />
    </svg>
  );
}
