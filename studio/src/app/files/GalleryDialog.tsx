// Dialog of flows to begin with. Each is a document of the gallery; opening one does not run it.

import { newFlow } from "../../document/flow";
import { openDocument } from "../../document/openDocument";
import { showDialog } from "../state/viewStore";
import { Modal } from "../ui/Modal";
import { createExampleData } from "./exampleData";
import { confirmLeave, loadUnsavedFlow } from "./openFile";
import { TEMPLATES, type Template } from "./templates";

export function GalleryDialog() {
  const close = () => showDialog(undefined);
  const start = async ({ text, data }: Partial<Template>) => {
    if (!confirmLeave()) return;
    close();
    if (data !== undefined) await createExampleData(data);
    loadUnsavedFlow(text === undefined ? newFlow() : openDocument(text).flow);
  };
  return (
    <Modal title="New flow" onClose={close}>
      <div className="gallery">
        <button type="button" className="template" onClick={() => void start({})}>
          <strong>An empty flow</strong>
          <span className="quiet">Place modules from the palette, or write its code.</span>
        </button>
        {TEMPLATES.map((template) => (
          <button
            type="button"
            className="template"
            key={template.name}
            onClick={() => void start(template)}
          >
            <strong>{template.title}</strong>
            <span className="quiet">{template.summary}</span>
          </button>
        ))}
      </div>
      <button type="button" onClick={close}>
        Cancel
      </button>
    </Modal>
  );
}
