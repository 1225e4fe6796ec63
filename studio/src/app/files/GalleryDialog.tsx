// Dialog of flows to begin with. Each is a document of the gallery; opening one does not run it.

import { newFlow } from "../../document/flow";
import { openDocument } from "../../document/openDocument";
import { showDialog } from "../state/viewStore";
import { Modal } from "../ui/Modal";
import { confirmLeave, loadUnsavedFlow } from "./openFile";
import { TEMPLATES } from "./templates";

export function GalleryDialog() {
  const close = () => showDialog(undefined);
  const start = (text?: string) => {
    if (!confirmLeave()) return;
    loadUnsavedFlow(text === undefined ? newFlow() : openDocument(text).flow);
    close();
  };
  return (
    <Modal title="Begin with" onClose={close}>
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
      <button type="button" onClick={close}>
        Not now
      </button>
    </Modal>
  );
}
