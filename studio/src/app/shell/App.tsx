// The page layout: toolbar, side bar, canvas, dock, inspector, code panel and dialogs.

import { useEffect } from "react";
import { Canvas } from "../canvas/Canvas";
import { Code } from "../code/CodePanel";
import { Gallery } from "../files/GalleryDialog";
import { SaveDialog } from "../files/SaveDialog";
import { Inspector } from "../inspector/Inspector";
import { PerturbDialog } from "../run/PerturbDialog";
import { Compare } from "../run/RunComparison";
import { StartDialog } from "../run/StartDialog";
import { useRoute } from "../state/routeStore";
import { useView } from "../state/viewStore";
import { Dock } from "./Dock";
import { Help } from "./HelpDialog";
import { Notices } from "./Notices";
import { SideBar } from "./SideBar";
import { listen } from "./shortcuts";
import { Toolbar } from "./Toolbar";

export function App() {
  useEffect(listen, []);
  const isComparing = useRoute(({ other }) => other !== undefined);
  return (
    <div className="studio">
      <Toolbar />
      <Notices />
      <SideBar />
      <main>
        {isComparing ? <Compare /> : <Canvas />}
        <Dock />
      </main>
      <div className="side">
        <Inspector />
        <Code />
      </div>
      <Help />
      <Dialogs />
    </div>
  );
}

function Dialogs() {
  const dialog = useView(({ dialog }) => dialog);
  switch (dialog) {
    case "gallery":
      return <Gallery />;
    case "save":
      return <SaveDialog />;
    case "run":
      return <StartDialog />;
    case "perturb":
      return <PerturbDialog />;
    case undefined:
      return null;
  }
}
