// The page layout: toolbar, side bar, canvas, dock, inspector, code panel and dialogs.

import { useEffect } from "react";
import { Canvas } from "../canvas/Canvas";
import { CodePanel } from "../code/CodePanel";
import { RunComparison } from "../compare/RunComparison";
import { ConnectionsDialog } from "../connections/ConnectionsDialog";
import { ExportDialog } from "../export/ExportDialog";
import { GalleryDialog } from "../files/GalleryDialog";
import { SaveDialog } from "../files/SaveDialog";
import { Inspector } from "../inspector/Inspector";
import { PreviewDialog } from "../preview/PreviewDialog";
import { PerturbDialog } from "../run/PerturbDialog";
import { ReplaceDialog } from "../run/ReplaceDialog";
import { StartDialog } from "../run/StartDialog";
import { ScriptDialog } from "../script/ScriptDialog";
import { useRoute } from "../state/routeStore";
import { followWidth, useView } from "../state/viewStore";
import { Dock } from "./Dock";
import { HelpDialog } from "./HelpDialog";
import { Notices } from "./Notices";
import { SideBar } from "./SideBar";
import { installShortcuts } from "./shortcuts";
import { Toolbar } from "./Toolbar";

export function App() {
  useEffect(installShortcuts, []);
  useEffect(followWidth, []);
  const isComparing = useRoute(({ other }) => other !== undefined);
  const { left, right, dock } = useView(({ panels }) => panels);
  return (
    <div className="studio" data-left={left} data-right={right} data-dock={dock}>
      <Toolbar />
      <Notices />
      <SideBar />
      <main>
        {isComparing ? <RunComparison /> : <Canvas />}
        <Dock />
      </main>
      <div className="side">
        <Inspector />
        <CodePanel />
      </div>
      <HelpDialog />
      <Dialogs />
    </div>
  );
}

function Dialogs() {
  const dialog = useView(({ dialog }) => dialog);
  switch (dialog) {
    case "connections":
      return <ConnectionsDialog />;
    case "gallery":
      return <GalleryDialog />;
    case "save":
      return <SaveDialog />;
    case "run":
      return <StartDialog />;
    case "perturb":
      return <PerturbDialog />;
    case "preview":
      return <PreviewDialog />;
    case "replace":
      return <ReplaceDialog />;
    case "export":
      return <ExportDialog />;
    case "script":
      return <ScriptDialog />;
    case undefined:
      return null;
  }
}
