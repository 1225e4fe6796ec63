// Dialog that slows a component of the run on purpose and ends active perturbations.

import { useId, useState } from "react";
import type { Progress } from "../backend/api";
import { useLive } from "../state/liveStore";
import { showDialog } from "../state/viewStore";
import { Answers, Modal } from "../ui/Modal";
import { Checked } from "../ui/ValidatedInput";
import {
  isHeld,
  KINDS,
  type Kind,
  knownOf,
  lastsFault,
  nameOf,
  perturbationOf,
  rateFault,
  type Said,
  slowedText,
} from "./perturbation";
import { perturb, unperturb } from "./runControl";

/** Slowdown factors to choose from. */
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
  const said: Said = { kind, name, factor, rate, lasts };
  const isWrong = rateFault(said) !== undefined || lastsFault(said) !== undefined;
  const leave = () => showDialog(undefined);
  return (
    <Modal title="Slow something" onClose={leave}>
      <Slowed progress={progress} />
      <form method="dialog" className="fields" onSubmit={() => void perturb(perturbationOf(said))}>
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
          {isHeld(kind) ? (
            <Checked label="At most" value={rate} fault={rateFault(said)} onValue={setRate} />
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
          <Checked
            label="Seconds"
            placeholder="to the end"
            value={lasts}
            fault={lastsFault(said)}
            onValue={setLasts}
          />
        </div>
        <Answers yes="Slow it" disabled={name === "" || isWrong} onLeave={leave}>
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

/** The active perturbations, each with a button that ends it. */
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
