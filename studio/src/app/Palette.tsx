// The modules a flow can be made of: found by name or by what they do, placed by a drag, a double
// click, or Enter.

import { useState } from "react";
import type { Spec } from "../document/specs";
import { add } from "./actions";
import { MODULE_TYPE } from "./Canvas";
import { useStudio } from "./studio";
import { Words } from "./Words";

export function Palette() {
  const specs = useStudio(({ specs }) => specs);
  const [wanted, setWanted] = useState("");
  const groups = GROUPS.map(({ title, has }) => ({
    title,
    found: [...specs.values()].filter((spec) => has(spec) && matches(spec, wanted)),
  })).filter(({ found }) => found.length > 0);
  const first = bestOf(
    groups.flatMap(({ found }) => found),
    wanted,
  );
  return (
    <nav className="palette" aria-label="Modules">
      <input
        id="palette-search"
        type="search"
        placeholder="Find a module  /"
        aria-label="Find a module"
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && first !== undefined) add(first.name);
          if (event.key === "Escape") setWanted("");
        }}
      />
      <div className="palette-list">
        {groups.map(({ title, found }) => (
          <section key={title}>
            <h2>{title}</h2>
            {found.map((spec) => (
              <Entry key={spec.name} spec={spec} isFirst={wanted !== "" && spec === first} />
            ))}
          </section>
        ))}
        {groups.length === 0 && <p className="quiet">No module is called or does that.</p>}
      </div>
    </nav>
  );
}

function Entry({ spec, isFirst }: { readonly spec: Spec; readonly isFirst: boolean }) {
  return (
    <button
      type="button"
      className="entry"
      draggable
      data-first={isFirst}
      title={`${spec.summary}\nDrag it, double-click, or press Enter.`}
      onDragStart={(event) => {
        event.dataTransfer.setData(MODULE_TYPE, spec.name);
        event.dataTransfer.effectAllowed = "copy";
      }}
      onDoubleClick={() => add(spec.name)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        add(spec.name);
      }}
    >
      <span className="entry-name">{spec.name}</span>
      <span className="entry-summary">
        <Words text={spec.summary} />
      </span>
    </button>
  );
}

/** By their ports, so that a new module finds its group by itself. */
const GROUPS: readonly { readonly title: string; readonly has: (spec: Spec) => boolean }[] = [
  { title: "Sources", has: ({ inputs }) => inputs.length === 0 },
  { title: "Work", has: ({ inputs, outputs }) => inputs.length > 0 && outputs.length > 0 },
  { title: "Ends", has: ({ inputs, outputs }) => inputs.length > 0 && outputs.length === 0 },
];

/** What Enter takes: whose name is meant, rather than who is told of in a text. */
function bestOf(found: readonly Spec[], wanted: string): Spec | undefined {
  const word = wanted.trim().toLowerCase();
  return (
    found.find(({ name }) => name === word) ??
    found.find(({ name }) => name.startsWith(word)) ??
    found.find(({ name }) => name.includes(word)) ??
    found[0]
  );
}

function matches({ name, summary, detail }: Spec, wanted: string): boolean {
  const text = `${name} ${summary} ${detail}`.toLowerCase();
  const words = wanted.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
