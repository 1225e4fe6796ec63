// The dialog with the Python code of a module: the whole file, at the definition.

import { useEffect, useRef, useState } from "react";
import { definitionLine } from "../../document/code/pythonFile";
import { CodeArea } from "../code/CodeArea";
import { isReadOnly, useServer } from "../state/serverStore";
import { showDialog } from "../state/viewStore";
import { isolateBidi } from "../ui/isolateBidi";
import { DialogButtons, Modal } from "../ui/Modal";
import { ProblemText } from "../ui/ProblemText";
import { saveScript, useScript } from "./script";

export function ScriptDialog() {
  const { reference, text, failure } = useScript();
  const mayWrite = !useServer(isReadOnly);
  const close = () => showDialog(undefined);
  return (
    <Modal title={isolateBidi(`${reference.name} in ${reference.path}`)} onClose={close} isWide>
      {text === undefined && failure === undefined && <p className="quiet">Reading…</p>}
      {failure !== undefined && (
        <p className="wrong-text" role="alert">
          <ProblemText problem={failure} />
        </p>
      )}
      {text === undefined ? (
        <button type="button" onClick={close}>
          Close
        </button>
      ) : (
        <ScriptForm text={text} name={reference.name} mayWrite={mayWrite} onClose={close} />
      )}
    </Modal>
  );
}

interface FormProps {
  readonly text: string;
  readonly name: string;
  readonly mayWrite: boolean;
  readonly onClose: () => void;
}

function ScriptForm({ text, name, mayWrite, onClose }: FormProps) {
  const [typed, setTyped] = useState(text);
  const line = definitionLine(text, name);
  const area = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (line !== undefined) area.current?.querySelectorAll(".line")[line - 1]?.scrollIntoView();
  }, [line]);
  return (
    <form
      className="fields"
      onSubmit={(event) => {
        event.preventDefault();
        void saveScript(typed).then((isSaved) => isSaved && onClose());
      }}
    >
      <div className="script" ref={area}>
        <CodeArea
          aria-label="The script"
          readOnly={!mayWrite}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
      </div>
      <p className="quiet">A run imports the file as it is saved. Saving runs nothing.</p>
      <DialogButtons submitLabel="Save" disabled={!mayWrite || typed === text} onCancel={onClose} />
    </form>
  );
}
