// Slows a component of the run on purpose: to see the flow bend around it, and be told its name.

import { useId, useState } from "react";
import type { Perturbation, Perturbed, Progress } from "./backend/border";
import { useLive } from "./live";
import { Answers, Modal } from "./Modal";
import { factorText, secondsText } from "./numbers";
import { perturb, unperturb } from "./running";
import { showDialog } from "./view";

const KINDS = ["instance", "module", "worker", "disk", "link"] as const;
type Kind = (typeof KINDS)[number];

/** How many times slower. */
const FACTORS = [2, 4, 10] as const;

export function PerturbDialog() {
  const progress = useLive(({ progress }) => progress);
  const [kind, setKind] = useState<Kind>("instance");
  const known = knownOf(kind, progress);
  const [typed, setTyped] = useState<string>();
  const [factor, setFactor] = useState<number>(4);
  const [rate, setRate] = useState("5MB/s");
  const [lasts, setLasts] = useState("");
  const names = useId();
  const name = typed ?? known[0] ?? "";
  const isHeld = kind === "disk" || kind === "link";
  const leave = () => showDialog(undefined);
  return (
    <Modal title="Slow something" onClose={leave}>
      <Slowed progress={progress} />
      <form
        method="dialog"
        className="fields"
        onSubmit={() => void perturb(said({ kind, name, factor, rate, lasts }))}
      >
        <div className="row">
          <label>
            What
            <select
              value={kind}
              onChange={({ target }) => {
                setKind(KINDS.find((one) => one === target.value) ?? "instance");
                setTyped(undefined);
              }}
            >
              {KINDS.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <div className="field">
            <label htmlFor={names}>Which</label>
            {known.length > 0 ? (
              <select id={names} value={name} onChange={({ target }) => setTyped(target.value)}>
                {known.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            ) : (
              <input id={names} value={name} onChange={({ target }) => setTyped(target.value)} />
            )}
          </div>
        </div>
        <div className="row">
          {isHeld ? (
            <label>
              At most
              <input value={rate} onChange={({ target }) => setRate(target.value)} />
            </label>
          ) : (
            <label>
              How slow
              <select value={factor} onChange={({ target }) => setFactor(Number(target.value))}>
                {FACTORS.map((one) => (
                  <option key={one} value={one}>
                    {one} times as slow
                  </option>
                ))}
              </select>
            </label>
          )}
          <label>
            Seconds
            <input
              inputMode="decimal"
              placeholder="to the end"
              value={lasts}
              onChange={({ target }) => setLasts(target.value)}
            />
          </label>
        </div>
        <Answers yes="Slow it" disabled={name === ""} onLeave={leave}>
          <button
            type="button"
            onClick={() => {
              void unperturb();
              leave();
            }}
          >
            End all of it
          </button>
        </Answers>
      </form>
    </Modal>
  );
}

/** What is slowed now; each of it can be ended alone. */
function Slowed({ progress }: { readonly progress: Progress | undefined }) {
  const { perturbed = [], seconds = 0 } = progress ?? {};
  if (perturbed.length === 0) return null;
  return (
    <ul className="slowed" aria-label="What is slowed now">
      {perturbed.map((one) => (
        <li key={one.number}>
          <span>{slowedText(one, seconds)}</span>
          <button
            type="button"
            className="small"
            aria-label={`End ${nameOf(one)}`}
            onClick={() => void unperturb(one.number)}
          >
            End
          </button>
        </li>
      ))}
    </ul>
  );
}

function nameOf(one: Perturbed): string {
  const kind = KINDS.find((kind) => one[kind] !== undefined);
  return kind === undefined ? "memory" : `${kind} ${one[kind]}`;
}

/** `instance work.2: 4.0×, 3.0 s more`. */
function slowedText(one: Perturbed, now: number): string {
  const { share, pause, rate, memory, after = 0, lasts, every } = one;
  const begins = Number(after) - now;
  const how = [
    rate !== undefined && `at most ${rate}`,
    share !== undefined && factorText(1 / (1 - Number(share))),
    pause === true && "stands still",
    memory !== undefined && `${memory} of memory held`,
    begins > 0 && `in ${secondsText(begins)}`,
    lasts !== undefined &&
      (begins > 0 || every !== undefined
        ? `for ${secondsText(Number(lasts))}`
        : `${secondsText(begins + Number(lasts))} more`),
    every !== undefined && `every ${secondsText(Number(every))}`,
  ];
  return `${nameOf(one)}: ${how.filter((part) => part !== false).join(", ")}`;
}

/** Who there is, as far as the run tells. */
function knownOf(kind: Kind, progress: Progress | undefined): readonly string[] {
  const modules = progress?.modules ?? [];
  const instances = modules.flatMap(({ instances }) => instances);
  if (kind === "module") return modules.map(({ id }) => id);
  if (kind === "instance") return instances.map(({ name }) => name);
  const workers = [...new Set(instances.map(({ worker }) => worker))].filter(Boolean).sort();
  if (kind === "worker") return workers;
  if (kind === "link") {
    return workers.flatMap((a) => workers.filter((b) => b !== a).map((b) => `${a}>${b}`));
  }
  return [];
}

interface Said {
  readonly kind: Kind;
  readonly name: string;
  readonly factor: number;
  readonly rate: string;
  readonly lasts: string;
}

/** In the words of `euphrates perturb --from`. */
function said({ kind, name, factor, rate, lasts }: Said): Perturbation {
  const seconds = Number(lasts);
  const isHeld = kind === "disk" || kind === "link";
  const how: Perturbation = isHeld ? { rate } : { share: 1 - 1 / factor };
  const until: Perturbation = seconds > 0 ? { lasts: seconds } : {};
  return { [kind]: name, ...how, ...until };
}
