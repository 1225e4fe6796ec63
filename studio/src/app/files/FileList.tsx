// The list of files beneath the server's root: documents, scripts and data.

import { useEffect } from "react";
import type { FileEntry } from "../backend/api";
import { DATA_MIME_TYPE } from "../canvas/dropModule";
import { addDataFile } from "../canvas/editCommands";
import { previewFile } from "../preview/preview";
import { actionOf } from "../shell/actions";
import { isReadOnly, refreshFiles, useServer } from "../state/serverStore";
import { showDialog } from "../state/viewStore";
import { formatBytes } from "../ui/format";
import { pickFile } from "./fileCommands";
import { openPath, useOpenFile } from "./openFile";

export function FileList() {
  const files = useServer(({ files }) => files);
  const root = useServer(({ session }) => session?.root);
  const opened = useOpenFile(({ path }) => path);
  const flows = files.filter(({ kind }) => kind !== "data");
  const data = files.filter(({ kind }) => kind === "data");
  // The server announces changes of listed files, but not new ones: refreshed on focus.
  useEffect(() => {
    const refresh = () => void refreshFiles();
    refresh();
    window.addEventListener("focus", refresh);
    return () => window.removeEventListener("focus", refresh);
  }, []);
  return (
    <div className="palette-list">
      <p className="quiet path" title={root}>
        {root}
      </p>
      <h2>Flows</h2>
      {flows.map(({ path, kind, bytes }) => (
        <button
          type="button"
          className="entry"
          key={path}
          aria-current={path === opened}
          title={`${path}, ${formatBytes(bytes)}`}
          onClick={() => void openPath(path)}
        >
          <span className="entry-name">{path}</span>
          <span className="entry-summary">
            {kind === "script" ? "Python" : "flow"}, {formatBytes(bytes)}
          </span>
        </button>
      ))}
      {flows.length === 0 && <p className="quiet">No files yet.</p>}
      <div className="row wrap">
        <button type="button" onClick={actionOf("new").run}>
          New…
        </button>
        <button type="button" onClick={pickFile} title="Open a file of this computer">
          From elsewhere…
        </button>
        <button
          type="button"
          onClick={() => showDialog("connections")}
          title="Object stores and clusters of this project"
        >
          Connections…
        </button>
      </div>
      {data.length > 0 && <h2>Data</h2>}
      {data.map((file) => (
        <DataEntry key={file.path} file={file} />
      ))}
    </div>
  );
}

/** A data file: dragged onto the canvas it becomes a `scan`; a click shows its first rows. */
function DataEntry({ file: { path, bytes } }: { readonly file: FileEntry }) {
  const mayRun = useServer((server) => server.link === "up" && !isReadOnly(server));
  return (
    <button
      type="button"
      className="entry data"
      draggable
      title={`${path}, ${formatBytes(bytes)}\nDrag it onto the canvas, or click for a preview.`}
      onDragStart={(event) => {
        event.dataTransfer.setData(DATA_MIME_TYPE, path);
        event.dataTransfer.effectAllowed = "copy";
      }}
      onClick={() => (mayRun ? void previewFile(path) : addDataFile(path))}
    >
      <span className="entry-name">{path}</span>
      <span className="entry-summary">{formatBytes(bytes)}</span>
    </button>
  );
}
