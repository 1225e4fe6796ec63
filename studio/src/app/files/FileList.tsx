// The list of flows beneath the server's root: documents and scripts.

import { useEffect } from "react";
import { actionOf } from "../shell/actions";
import { refreshFiles, useServer } from "../state/serverStore";
import { formatBytes } from "../ui/format";
import { pickFile } from "./fileCommands";
import { openPath, useOpenFile } from "./openFile";

export function FileList() {
  const files = useServer(({ files }) => files);
  const root = useServer(({ session }) => session?.root);
  const opened = useOpenFile(({ path }) => path);
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
      {files.map(({ path, kind, bytes }) => (
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
      {files.length === 0 && <p className="quiet">No flow is saved here yet.</p>}
      <div className="row wrap">
        <button type="button" onClick={actionOf("new").run}>
          New…
        </button>
        <button type="button" onClick={pickFile} title="Open a file of this computer">
          From elsewhere…
        </button>
      </div>
    </div>
  );
}
