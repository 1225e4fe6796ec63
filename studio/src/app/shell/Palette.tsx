// The module palette: searchable; modules are placed by drag, double click or Enter.

import { useState } from "react";
import type { Spec } from "../../document/specs";
import { MODULE_MIME_TYPE } from "../canvas/dropModule";
import { addModule } from "../canvas/editCommands";
import { CATEGORIES, CATEGORY_TITLES, categoryOf } from "../canvas/moduleCategory";
import { useStudio } from "../state/studioStore";
import { Icon } from "../ui/Icon";
import { InlineMarkdown } from "../ui/InlineMarkdown";

export function Palette() {
  const specs = useStudio(({ specs }) => specs);
  const [wanted, setWanted] = useState("");
  const groups = CATEGORIES.map((category) => ({
    title: CATEGORY_TITLES[category],
    found: [...specs.values()].filter(
      (spec) => categoryOf(spec)[0] === category && matches(spec, wanted),
    ),
  })).filter(({ found }) => found.length > 0);
  const first = bestMatch(
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
          if (event.key === "Enter" && first !== undefined) addModule(first.name);
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
        {groups.length === 0 && <p className="quiet">No module matches.</p>}
      </div>
    </nav>
  );
}

function Entry({ spec, isFirst }: { readonly spec: Spec; readonly isFirst: boolean }) {
  const [category, icon] = categoryOf(spec);
  return (
    <button
      type="button"
      className="entry module"
      data-category={category}
      draggable
      data-first={isFirst}
      title={`${sourceOf(spec)}${spec.summary}\nDrag it, double-click, or press Enter.`}
      onDragStart={(event) => {
        event.dataTransfer.setData(MODULE_MIME_TYPE, spec.name);
        event.dataTransfer.effectAllowed = "copy";
      }}
      onDoubleClick={() => addModule(spec.name)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        addModule(spec.name);
      }}
    >
      <span className="card-icon">
        <Icon name={icon} />
      </span>
      <span className="entry-name">{titleOf(spec)}</span>
      <span className="entry-summary">
        <InlineMarkdown text={spec.summary} />
      </span>
    </button>
  );
}

function sourceOf({ own }: Spec): string {
  return own === undefined ? "" : `${own.file}\n`;
}

/** The name that is displayed. */
function titleOf(spec: Spec): string {
  return spec.own?.title ?? spec.name;
}

/** The match that Enter places: names before descriptions, exact before prefix before inner. */
function bestMatch(found: readonly Spec[], wanted: string): Spec | undefined {
  const word = wanted.trim().toLowerCase();
  const called = (spec: Spec) => titleOf(spec).toLowerCase();
  return (
    found.find((spec) => called(spec) === word) ??
    found.find((spec) => called(spec).startsWith(word)) ??
    found.find((spec) => called(spec).includes(word)) ??
    found[0]
  );
}

function matches({ name, summary, detail }: Spec, wanted: string): boolean {
  const text = `${name} ${summary} ${detail}`.toLowerCase();
  const words = wanted.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
