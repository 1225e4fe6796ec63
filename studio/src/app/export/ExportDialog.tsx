// The dialog that exports the flow: as a picture, as a program, or as its document.

import { codeBlocksOf } from "../../document/code/codeBlocks";
import { writeRust } from "../../document/code/writeRust";
import { withoutLayout } from "../../document/mergeCode";
import { writePython } from "../../document/python/writePython";
import { writeDocument } from "../../document/writeDocument";
import { slug } from "../files/openFile";
import { type StudioState, useStudio } from "../state/studioStore";
import { showDialog } from "../state/viewStore";
import { Modal } from "../ui/Modal";
import { downloadText } from "./download";
import { flowPicture } from "./flowPicture";

interface ExportFormat {
  readonly title: string;
  readonly help: string;
  readonly extension: string;
  readonly type: string;
  readonly write: (state: StudioState) => string;
}

const FORMATS: readonly ExportFormat[] = [
  {
    title: "Picture (SVG)",
    help: "The flow as it is arranged, for documents and slides.",
    extension: "svg",
    type: "image/svg+xml",
    write: ({ history, ...state }) => flowPicture({ flow: history.now, ...state }),
  },
  {
    title: "Python script",
    help: "A program that builds the flow and runs it.",
    extension: "py",
    type: "text/x-python",
    write: ({ history: { now }, specs }) =>
      writePython(withoutLayout(now), specs, codeBlocksOf(now)),
  },
  {
    title: "Rust program",
    help: "The same for programs without Python.",
    extension: "rs",
    type: "text/x-rust",
    write: ({ history }) => writeRust(withoutLayout(history.now)),
  },
  {
    title: "Document (JSON)",
    help: "The flow with its arrangement, for euphrates run.",
    extension: "json",
    type: "application/json",
    write: ({ history }) => `${writeDocument(history.now)}\n`,
  },
];

export function ExportDialog() {
  const close = () => showDialog(undefined);
  return (
    <Modal title="Export" onClose={close}>
      <div className="gallery">
        {FORMATS.map(({ title, help, extension, type, write }) => (
          <button
            type="button"
            className="template"
            key={extension}
            onClick={() => {
              const state = useStudio.getState();
              downloadText(`${slug(state.history.now.name)}.${extension}`, type, write(state));
              close();
            }}
          >
            <strong>{title}</strong>
            <span className="quiet">{help}</span>
          </button>
        ))}
      </div>
      <button type="button" onClick={close}>
        Cancel
      </button>
    </Modal>
  );
}
