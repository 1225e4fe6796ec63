// Asks before a run whether outputs that are there may be replaced.

import { useEffect, useState } from "react";
import { revealOption } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { isolateBidi } from "../ui/isolateBidi";
import { DialogButtons, Modal } from "../ui/Modal";
import { type ExistingOutput, existingOutputs } from "./outputs";
import { startRun } from "./runControl";

export function ReplaceDialog() {
  const [outputs, setOutputs] = useState<readonly ExistingOutput[]>([]);
  useEffect(() => void existingOutputs().then(setOutputs), []);
  const close = () => showDialog(undefined);
  return (
    <Modal title="Replace output" onClose={close}>
      <p>These outputs exist already:</p>
      <ul>
        {outputs.map(({ id, path }) => (
          <li key={id}>
            {id}: <code>{isolateBidi(path)}</code>
          </li>
        ))}
      </ul>
      <p className="quiet">
        They are replaced when the run succeeds, and kept if it fails. Later runs ask again, unless
        the option of the module permits it.
      </p>
      <form
        method="dialog"
        onSubmit={() => {
          void startRun({ replaced: outputs.map(({ id }) => id) });
        }}
      >
        <DialogButtons
          submitLabel="Replace output and run"
          disabled={outputs.length === 0}
          onCancel={close}
        >
          <button
            type="button"
            onClick={() => {
              close();
              const [first] = outputs;
              if (first !== undefined) revealOption({ module: first.id, option: "path" });
            }}
          >
            Choose another path
          </button>
        </DialogButtons>
      </form>
    </Modal>
  );
}
