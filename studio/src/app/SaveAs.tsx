// Where a flow is saved that has no file yet, or is to have another.

import { useState } from "react";
import { isScript, saveTo, slug, useOpened } from "./files";
import { Answers, Modal } from "./Modal";
import { useStudio } from "./studio";
import { showDialog } from "./view";

export function SaveDialog() {
  const { name } = useStudio(({ history }) => history.now);
  const isWhole = useStudio(({ isWhole }) => isWhole);
  const opened = useOpened(({ path }) => path);
  const [path, setPath] = useState(opened ?? `${slug(name)}${isWhole ? "" : ".rescued"}.json`);
  const leave = () => showDialog(undefined);
  const isOurs = path.endsWith(".json") || isScript(path);
  return (
    <Modal title="Save the flow" onClose={leave}>
      <form method="dialog" className="fields" onSubmit={() => void saveTo(path.trim(), null)}>
        <div className="field">
          <label htmlFor="path">Path, beneath the root</label>
          <input id="path" value={path} onChange={({ target }) => setPath(target.value)} />
          <p className="quiet">
            {isOurs ? "" : "End it in .json for a document, in .py for Python. "}
            What is there already is not replaced without asking.
          </p>
        </div>
        <Answers yes="Save" disabled={!isOurs} onLeave={leave} />
      </form>
    </Modal>
  );
}
