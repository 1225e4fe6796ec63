// The left side bar: the module palette and, with a server, the file and run lists.

import { FileList } from "../files/FileList";
import { RunList } from "../run/RunList";
import { useServer } from "../state/serverStore";
import { type SidePanel, showSidePanel, useView } from "../state/viewStore";
import { Palette } from "./Palette";

const TITLES: readonly (readonly [SidePanel, string])[] = [
  ["modules", "Modules"],
  ["files", "Files"],
  ["runs", "Runs"],
];

export function SideBar() {
  const hasServer = useServer(({ backend }) => backend !== undefined);
  const side = useView(({ side }) => side);
  if (!hasServer) return <Palette />;
  return (
    <div className="sidebar">
      <div className="tabs" role="tablist">
        {TITLES.map(([one, title]) => (
          <button
            type="button"
            role="tab"
            key={one}
            aria-selected={one === side}
            onClick={() => showSidePanel(one)}
          >
            {title}
          </button>
        ))}
      </div>
      {side === "modules" && <Palette />}
      {side === "files" && (
        <nav className="palette" aria-label="Files">
          <FileList />
        </nav>
      )}
      {side === "runs" && (
        <nav className="palette" aria-label="Runs">
          <RunList />
        </nav>
      )}
    </div>
  );
}
