// The page: palette, drawing, what is selected, code; above it everything that can be done, below
// it everything that is wrong.

import { useEffect, useState } from "react";
import { told } from "../document/problem";
import { ACTIONS, actionOf, listen } from "./actions";
import { Canvas } from "./Canvas";
import { Code } from "./Code";
import { Inspector } from "./Inspector";
import { Palette } from "./Palette";
import { isDirty, refuse, seek, select, useStudio } from "./studio";

export function App() {
  useEffect(listen, []);
  return (
    <div className="studio">
      <Toolbar />
      <Palette />
      <main>
        <Canvas />
        <Problems />
      </main>
      <div className="side">
        <Inspector />
        <Code />
      </div>
      <Help />
    </div>
  );
}

const BUTTONS = [
  ["new", "open", "save"],
  ["undo", "redo"],
  ["copy", "paste", "delete", "all"],
  ["arrange"],
] as const;

function Toolbar() {
  const { history } = useStudio();
  const dirty = useStudio(isDirty);
  const done: Record<string, string | undefined> = {
    undo: history.past.at(-1)?.what,
    redo: history.future.at(-1)?.what,
  };
  return (
    <header className="toolbar">
      <h1>
        {history.now.name}
        {dirty && <span title="Not saved"> •</span>}
      </h1>
      {BUTTONS.map((group) => (
        <div className="group" key={group[0]}>
          {group.map((name) => {
            const { label, help, keys, run } = actionOf(name);
            const isStep = name === "undo" || name === "redo";
            const what = isStep ? (done[name] ?? "nothing") : help;
            return (
              <button
                type="button"
                key={name}
                title={`${what} (${keys.join(", ")})`}
                disabled={isStep && done[name] === undefined}
                onClick={run}
              >
                {label}
              </button>
            );
          })}
        </div>
      ))}
      <div className="group end">
        <Theme />
        <button type="button" onClick={actionOf("help").run} title="Keys (?)">
          Keys
        </button>
      </div>
    </header>
  );
}

const THEMES = ["system", "light", "dark"] as const;

function Theme() {
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

/** More than anybody reads at once. */
const SHOWN_MAX = 50;

function Problems() {
  const { problems, refused, strange, history } = useStudio();
  const ends = (queue: number | undefined) => history.now.queues[queue ?? -1]?.to;
  return (
    <section className="problems" aria-label="Problems" aria-live="polite">
      {refused !== undefined && (
        <p className="refused" role="alert">
          {told(refused)}
          <button type="button" className="small" onClick={() => refuse(undefined)}>
            Close
          </button>
        </p>
      )}
      {[...new Set(strange.map(told))].slice(0, SHOWN_MAX).map((text) => (
        <p key={text}>In the file: {text}</p>
      ))}
      {problems.length === 0 && <p className="quiet">Nothing is wrong that can be told here.</p>}
      {problems.slice(0, SHOWN_MAX).map(({ module, queue, option, ...problem }) => (
        <button
          type="button"
          className="link"
          key={`${module} ${queue} ${option} ${problem.message}`}
          onClick={() => {
            const id = module ?? ends(queue);
            if (queue !== undefined) select(new Set(), new Set([queue]));
            else if (id !== undefined) seek(new Set([id]));
          }}
        >
          {module !== undefined && `${module}: `}
          {told(problem)}
        </button>
      ))}
      {problems.length > SHOWN_MAX && <p>and {problems.length - SHOWN_MAX} more</p>}
    </section>
  );
}

function Help() {
  return (
    <dialog id="help" aria-label="Keys">
      <h2>Keys</h2>
      <table>
        <tbody>
          {ACTIONS.map(({ name, help, keys }) => (
            <tr key={name}>
              <td>{help}</td>
              <td>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
            </tr>
          ))}
          <tr>
            <td>Place the module of the palette, behind the selected one</td>
            <td>
              <kbd>Enter</kbd>
            </td>
          </tr>
          <tr>
            <td>Go to the next module; move the selected ones</td>
            <td>
              <kbd>Tab</kbd>
              <kbd>Arrows</kbd>
            </td>
          </tr>
        </tbody>
      </table>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
