// Dialog that asks for the path to save under.

import { useState } from "react";
import { problemText } from "../../document/problem";
import { useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { DialogButtons, Modal } from "../ui/Modal";
import { isScript, saveTo, slug, useOpenFile } from "./openFile";

export function SaveDialog() {
  const { name } = useStudio(({ history }) => history.now);
  const isComplete = useStudio(({ isComplete }) => isComplete);
  const opened = useOpenFile(({ path }) => path);
  const [path, setPath] = useState(opened ?? `${slug(name)}${isComplete ? "" : ".rescued"}.json`);
  const [fault, setFault] = useState<string>();
  const close = () => showDialog(undefined);
  const save = async () => {
    if (await saveTo(path.trim(), null)) return close();
    // The dialog stays open with the typed path.
    const { refusal } = useStudio.getState();
    setFault(refusal && problemText(refusal));
  };
  const isSupported = path.endsWith(".json") || isScript(path);
  return (
    <Modal title="Save the flow" onClose={close}>
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div className="field">
          <label htmlFor="path">Path in the project</label>
          <input
            id="path"
            value={path}
            aria-invalid={fault !== undefined}
            onChange={({ target }) => {
              setPath(target.value);
              setFault(undefined);
            }}
          />
          {fault !== undefined && (
            <p className="wrong-text" role="alert">
              {fault}
            </p>
          )}
          <p className="quiet">
            {isSupported ? "" : "End it in .json for a document, in .py for Python. "}
            What is there already is not replaced without asking.
          </p>
        </div>
        <DialogButtons submitLabel="Save" disabled={!isSupported} onCancel={close} />
      </form>
    </Modal>
  );
}
