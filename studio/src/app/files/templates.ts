// The gallery's flows with titles and summaries. The documents are files, which the tests of the
// Rust side run as well.

import clean from "../../../gallery/clean.json?raw";
import copy from "../../../gallery/copy.json?raw";
import sort from "../../../gallery/external_sort.json?raw";
import join from "../../../gallery/join.json?raw";
import mirrors from "../../../gallery/mirrored_read.json?raw";
import slow from "../../../gallery/slow_consumer.json?raw";

export interface Template {
  /** Its file's name without extension. */
  readonly name: string;
  readonly title: string;
  readonly summary: string;
  /** The text of its document. */
  readonly text: string;
}

export const TEMPLATES: readonly Template[] = [
  {
    name: "copy",
    title: "Copy",
    summary: "Reads files and writes one: the smallest flow that does something.",
    text: copy,
  },
  {
    name: "clean",
    title: "Clean, CSV to Parquet",
    summary: "Reads CSV, drops rows that lack something, computes a column, writes Parquet.",
    text: clean,
  },
  {
    name: "external_sort",
    title: "External sort",
    summary: "Sorts more records than the memory holds, and writes them in order.",
    text: sort,
  },
  {
    name: "join",
    title: "Join and group",
    summary: "Joins orders with their customers, and adds up by segment of the market.",
    text: join,
  },
  {
    name: "slow_consumer",
    title: "A slow consumer",
    summary: "Run it, slow one of four, and watch the work go to the other three.",
    text: slow,
  },
  {
    name: "mirrored_read",
    title: "A mirrored read",
    summary: "Reads a collection that has copies: slow a disk, and the mirrors give the rest.",
    text: mirrors,
  },
];
