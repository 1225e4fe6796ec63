// Dialog that slows a component of the run on purpose and ends active perturbations.

import { useId, useState } from "react";
import type { Progress } from "../backend/api";
import { useLive } from "../state/liveStore";
import { showDialog } from "../state/viewStore";
import { DialogButtons, Modal } from "../ui/Modal";
import { ValidatedInput } from "../ui/ValidatedInput";
import {
  durationError,
  isRateLimited,
  type PerturbationForm,
  perturbationName,
  perturbationText,
  rateError,
  TARGET_KINDS,
  type TargetKind,
  targetNames,
  toPerturbation,
} from "./perturbation";
import { endPerturbation, perturb } from "./runControl";

/** Slowdown factors to choose from. */
const FACTORS = [2, 4, 10] as const;

export function PerturbDialog() {
  const progress = useLive(({ progress }) => progress);
  const [kind, setKind] = useState<TargetKind>("instance");
  const targets = targetNames(kind, progress);
  const [typed, setTyped] = useState<string>();
  const [factor, setFactor] = useState<number>(4);
  const [rate, setRate] = useState("5MB/s");
  const [lasts, setLasts] = useState("");
  const names = useId();
  const name = typed ?? targets[0] ?? "";
  const form: PerturbationForm = { kind, name, factor, rate, lasts };
  const isWrong = rateError(form) !== undefined || durationError(form) !== undefined;
  const close = () => showDialog(undefined);
  return (
    <Modal title="Slow something" onClose={close}>
      <ActivePerturbations progress={progress} />
      <form method="dialog" className="fields" onSubmit={() => void perturb(toPerturbation(form))}>
        <div className="row">
          <label>
            What
            <select
              value={kind}
              onChange={({ target }) => {
                setKind(TARGET_KINDS.find((one) => one === target.value) ?? "instance");
                setTyped(undefined);
              }}
            >
              {TARGET_KINDS.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
          <div className="field">
            <label htmlFor={names}>Which</label>
            {targets.length > 0 ? (
              <select id={names} value={name} onChange={({ target }) => setTyped(target.value)}>
                {targets.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            ) : (
              <input id={names} value={name} onChange={({ target }) => setTyped(target.value)} />
            )}
          </div>
        </div>
        <div className="row">
          {isRateLimited(kind) ? (
            <ValidatedInput
              label="At most"
              value={rate}
              error={rateError(form)}
              onValue={setRate}
            />
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
          <ValidatedInput
            label="Seconds"
            placeholder="to the end"
            value={lasts}
            error={durationError(form)}
            onValue={setLasts}
          />
        </div>
        <DialogButtons submitLabel="Slow it" disabled={name === "" || isWrong} onCancel={close}>
          <button
            type="button"
            onClick={() => {
              void endPerturbation();
              close();
            }}
          >
            End all of it
          </button>
        </DialogButtons>
      </form>
    </Modal>
  );
}

/** The active perturbations, each with a button that ends it. */
function ActivePerturbations({ progress }: { readonly progress: Progress | undefined }) {
  const { perturbed = [], seconds = 0 } = progress ?? {};
  if (perturbed.length === 0) return null;
  return (
    <ul className="slowed" aria-label="Active slowdowns">
      {perturbed.map((one) => (
        <li key={one.number}>
          <span>{perturbationText(one, seconds)}</span>
          <button
            type="button"
            className="small"
            aria-label={`End ${perturbationName(one)}`}
            onClick={() => void endPerturbation(one.number)}
          >
            End
          </button>
        </li>
      ))}
    </ul>
  );
}
