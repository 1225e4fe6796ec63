// The toolbar: the flow's name, a button for each action, run controls and the theme.

import { useEffect, useRef, useState } from "react";
import { useOpenFile } from "../files/openFile";
import { useLive } from "../state/liveStore";
import { isReadOnly, useServer } from "../state/serverStore";
import { isDirty, useStudio } from "../state/studioStore";
import { type Panel, togglePanel, useView } from "../state/viewStore";
import { Icon, type IconName } from "../ui/Icon";
import { actionOf } from "./actions";

const BUTTONS = [
  ["new", "open", "save", "saveAs", "export"],
  ["undo", "redo"],
  ["copy", "paste", "delete"],
  ["bundle", "arrange"],
] as const;

export function Toolbar() {
  const { history } = useStudio();
  const dirty = useStudio(isDirty);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const menu = useRef<HTMLButtonElement>(null);
  const closeMenu = () => {
    setMenuOpen(false);
    menu.current?.focus();
  };
  const path = useOpenFile(({ path }) => path);
  const done: Record<string, string | undefined> = {
    undo: history.past.at(-1)?.label,
    redo: history.future.at(-1)?.label,
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes its menu
    <header
      className="toolbar"
      onKeyDown={({ key }) => key === "Escape" && isMenuOpen && closeMenu()}
    >
      <h1>
        <bdi>{history.now.name}</bdi>
        {dirty && <span title="Not saved"> •</span>}
        <bdi className="quiet file-name">{path}</bdi>
      </h1>
      <button
        ref={menu}
        type="button"
        className="tool menu"
        aria-expanded={isMenuOpen}
        onClick={() => setMenuOpen(!isMenuOpen)}
      >
        <Icon name="more" />
        Menu
      </button>
      <div className="actions" data-open={isMenuOpen}>
        {BUTTONS.map((group) => (
          <div className="group" key={group[0]}>
            {group.map((name) => {
              const { label, help, keys, run } = actionOf(name);
              const isStep = name === "undo" || name === "redo";
              const what = isStep ? (done[name] ?? "nothing") : help;
              return (
                <button
                  type="button"
                  className="tool"
                  key={name}
                  title={`${what} (${keys.join(", ")})`}
                  disabled={isStep && done[name] === undefined}
                  onClick={run}
                >
                  <Icon name={name} />
                  {label}
                </button>
              );
            })}
          </div>
        ))}
        <div className="group">
          <PanelButton panel="left" icon="side" label="Modules" />
          <PanelButton panel="right" icon="form" label="Details" />
          <PanelButton panel="dock" icon="dock" label="Problems" />
        </div>
        <div className="group">
          <ThemeSelect />
          <button type="button" className="tool" onClick={actionOf("help").run} title="Keys (?)">
            <Icon name="help" />
            Keys
          </button>
        </div>
      </div>
      <div className="group end">
        <RunButtons />
      </div>
    </header>
  );
}

interface PanelButtonProps {
  readonly panel: Panel;
  readonly icon: IconName;
  readonly label: string;
}

function PanelButton({ panel, icon, label }: PanelButtonProps) {
  const isOpen = useView(({ panels }) => panels[panel]);
  return (
    <button
      type="button"
      className="tool"
      aria-label={`Panel: ${label}`}
      aria-pressed={isOpen}
      title={`${isOpen ? "Close" : "Open"} the panel`}
      onClick={() => togglePanel(panel)}
    >
      <Icon name={icon} />
      {label}
    </button>
  );
}

/** Run, Run with… and Stop; hidden without a server, a badge for read-only sessions. */
function RunButtons() {
  const { link } = useServer();
  const isWatching = useServer(isReadOnly);
  const isRunning = useLive(({ run }) => run?.state === "running");
  if (link === "none") return null;
  if (isWatching) return <span className="badge">read only</span>;
  const run = actionOf("run");
  const stop = actionOf("stop");
  const choose = actionOf("choose");
  const isAway = link !== "up";
  return (
    <>
      <button
        type="button"
        className="primary"
        disabled={isAway || isRunning}
        title={`${run.help} (${run.keys.join(", ")})`}
        onClick={run.run}
      >
        ▶ {run.label}
      </button>
      <button
        type="button"
        disabled={isAway}
        title={`${choose.help} (${choose.keys.join(", ")})`}
        onClick={choose.run}
      >
        {choose.label}
      </button>
      <button
        type="button"
        disabled={isAway || !isRunning}
        title={`${stop.help} (${stop.keys.join(", ")})`}
        onClick={stop.run}
      >
        ■ {stop.label}
      </button>
    </>
  );
}

const THEMES = ["system", "light", "dark"] as const;

function ThemeSelect() {
  const [theme, setTheme] = useState(() => localStorage.getItem("euphrates.theme") ?? "system");
  useEffect(() => {
    localStorage.setItem("euphrates.theme", theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return (
    <select aria-label="Colours" value={theme} onChange={({ target }) => setTheme(target.value)}>
      {THEMES.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  );
}
