// The gallery's flows with titles and summaries. The documents are files, which the tests of the
// Rust side run as well. Those that read a file come with example data, so that they run as they
// are.

import clean from "../../../gallery/clean.json?raw";
import collection from "../../../gallery/collection.json?raw";
import copy from "../../../gallery/copy.json?raw";
import sort from "../../../gallery/external_sort.json?raw";
import join from "../../../gallery/join.json?raw";
import sales from "../../../gallery/sales.csv?raw";
import slow from "../../../gallery/slow_consumer.json?raw";

/** A data file that a template reads. */
export interface ExampleData {
  readonly path: string;
  readonly text: string;
}

const SALES: ExampleData = { path: "sales.csv", text: sales };

export interface Template {
  /** Its file's name without extension. */
  readonly name: string;
  readonly title: string;
  readonly summary: string;
  /** The text of its document. */
  readonly text: string;
  readonly data?: ExampleData;
}

export const TEMPLATES: readonly Template[] = [
  {
    name: "copy",
    title: "Copy",
    summary: "Reads files and writes one: the smallest flow that does something.",
    text: copy,
    data: SALES,
  },
  {
    name: "clean",
    title: "Clean, CSV to Parquet",
    summary: "Reads CSV, drops rows that lack something, computes a column, writes Parquet.",
    text: clean,
    data: SALES,
  },
  {
    name: "external_sort",
    title: "External sort",
    summary: "Sorts records, on disk where memory is short, and writes them in order.",
    text: sort,
  },
  {
    name: "join",
    title: "Join and group",
    summary: "Joins generated orders with their customers, and adds up by market segment.",
    text: join,
  },
  {
    name: "slow_consumer",
    title: "A slow consumer",
    summary: "Run it, slow one of four, and watch the work go to the other three.",
    text: slow,
  },
  {
    name: "collection",
    title: "Keep a collection",
    summary: "Writes numbers to a collection, which other flows read.",
    text: collection,
  },
];
