// Dialog of flows to begin with. Each is a document of the gallery; opening one does not run it.

import { newFlow } from "../../document/flow";
import { open } from "../../document/openDocument";
import { showDialog } from "../state/viewStore";
import { Modal } from "../ui/Modal";
import { beginUnnamed, mayLeave } from "./openFile";
import { TEMPLATES } from "./templates";

export function Gallery() {
  const leave = () => showDialog(undefined);
  const start = (text?: string) => {
    if (!mayLeave()) return;
    beginUnnamed(text === undefined ? newFlow() : open(text).flow);
    leave();
  };
  return (
    <Modal title="Begin with" onClose={leave}>
      <div className="gallery">
        <button type="button" className="template" onClick={() => start()}>
          <strong>An empty flow</strong>
          <span className="quiet">Place modules from the palette, or write its code.</span>
        </button>
        {TEMPLATES.map(({ name, title, summary, text }) => (
          <button type="button" className="template" key={name} onClick={() => start(text)}>
            <strong>{title}</strong>
            <span className="quiet">{summary}</span>
          </button>
        ))}
      </div>
      <button type="button" onClick={leave}>
        Not now
      </button>
    </Modal>
  );
}
