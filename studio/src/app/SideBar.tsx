// The left side: modules to place; with a server, also its files and its runs.

import { Files } from "./Files";
import { Palette } from "./Palette";
import { Runs } from "./Runs";
import { useServer } from "./server";
import { type Side, showSide, useView } from "./view";

const TITLES: readonly (readonly [Side, string])[] = [
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
            onClick={() => showSide(one)}
          >
            {title}
          </button>
        ))}
      </div>
      {side === "modules" && <Palette />}
      {side === "files" && (
        <nav className="palette" aria-label="Files">
          <Files />
        </nav>
      )}
      {side === "runs" && (
        <nav className="palette" aria-label="Runs">
          <Runs />
        </nav>
      )}
    </div>
  );
}
