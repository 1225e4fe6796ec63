// Icons, drawn as strokes in a 16 by 16 grid. They repeat what a label says and are never alone.

export type IconName = keyof typeof ICON_PATHS;

/** The path of each icon. */
export const ICON_PATHS = {
  new: "M4 2h5l3 3v9H4zM9 2v3h3",
  open: "M2 12V4h4l1.5 2H14v6z",
  save: "M3 3h8l2 2v8H3zM5 3v3h5V3M5 13V9h6v4",
  saveAs: "M3 3h8l2 2v3M3 3v10h4M5 3v3h5V3M9 13l4-4 1 1-4 4H9z",
  undo: "M6 4L3 7l3 3M3 7h6a4 4 0 0 1 0 7H7",
  redo: "M10 4l3 3-3 3M13 7H7a4 4 0 0 0 0 7h2",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  paste: "M5 4H3v10h10V4h-2M6 2h4v3H6z",
  delete: "M3 5h10M6 5V3h4v2M5 5l1 9h4l1-9",
  all: "M3 3h10v10H3zM6 8l2 2 3-4",
  arrange: "M2 3h4v4H2zM10 3h4v4h-4zM10 10h4v4h-4zM6 5h4M8 5v7h2",
  export: "M8 2v8M5 5l3-3 3 3M3 9v5h10V9",
  choose: "M3 5h10M3 11h10M6 3v4M10 9v4",
  help: "M5.5 6a2.5 2.5 0 1 1 3.5 2.3c-.8.4-1 .8-1 1.7M8 12.5v.5",
  side: "M2 3h12v10H2zM6 3v10",
  form: "M2 3h12v10H2zM10 3v10",
  dock: "M2 3h12v10H2zM2 9h12",
  bundle: "M2 2h12v12H2zM4.5 6h4v3h-4zM8.5 9h3v2.5h-3z",
  fold: "M4 6l4 4 4-4",
  unfold: "M6 4l4 4-4 4",
  more: "M3 4h10M3 8h10M3 12h10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  source: "M8 2v7M5 6l3 3 3-3M3 11v3h10v-3",
  sink: "M8 9V2M5 5l3-3 3 3M3 11v3h10v-3",
  filter: "M2 3h12L9.5 8.5V13l-3-1.5v-3z",
  columns: "M3 3h10v10H3zM6.5 3v10M9.5 3v10",
  sort: "M5 3v10M2.5 10.5L5 13l2.5-2.5M9 4h5M9 8h4M9 12h2",
  join: "M6 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
  group: "M12 3H4l4 5-4 5h8",
  split: "M2 8h4l4-4h4M6 8l4 4h4",
  merge: "M2 4h4l4 4h4M2 12h4l4-4",
  code: "M5 4L1.5 8 5 12M11 4l3.5 4-3.5 4M9 3L7 13",
} as const;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICON_PATHS[name]} />
    </svg>
  );
}
