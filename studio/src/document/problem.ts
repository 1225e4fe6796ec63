// Problems: message, place and remedy, with the texts of crates/flow/src/error.rs.

/** A problem of a flow, for people. */
export interface Problem {
  readonly message: string;
  /** Its place, outermost first: `module sort_1`, `queue from scan_1`. */
  readonly place?: string | undefined;
  readonly remedy?: string | undefined;
}

/** Thrown by edits that cannot be made. */
export class EditError extends Error implements Problem {
  readonly place?: string | undefined;
  readonly remedy?: string | undefined;

  constructor(problem: Problem) {
    super(problem.message);
    this.name = "Refusal";
    this.place = problem.place;
    this.remedy = problem.remedy;
  }
}

/** Prepends an enclosing place. */
export function withPlace(place: string, problem: Problem): Problem {
  const { message, remedy } = problem;
  return { message, remedy, place: problem.place ? `${place}: ${problem.place}` : place };
}

/** The problem of an unknown name, suggesting the nearest known one. */
export function unknownName(what: string, word: string, known: readonly string[]): Problem {
  const near = didYouMean(word, known);
  if (near !== undefined) return unknownNameWith(what, word, `did you mean \`${near}\`?`);
  const listed = known.length > 0 ? `known: ${known.join(", ")}` : `there is no ${what} yet`;
  return unknownNameWith(what, word, listed);
}

function unknownNameWith(what: string, word: string, remedy: string): Problem {
  return { message: `no ${what} named \`${word}\``, remedy };
}

/** The nearest candidate within a third of the word's length plus one edit, if any. */
export function didYouMean(word: string, candidates: readonly string[]): string | undefined {
  const { length } = [...word];
  // At least one letter must match.
  const worst = Math.min(Math.max(Math.floor(length / 3), 1) + 1, length - 1);
  const near = candidates
    .map((candidate) => ({ candidate, distance: editDistance(word, candidate) }))
    .filter(({ distance }) => distance <= worst)
    .sort((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1));
  return near[0]?.candidate;
}

/** Levenshtein distance, ignoring case. */
function editDistance(a: string, b: string): number {
  const wanted = [...b.toLowerCase()];
  let row = [...Array(wanted.length + 1).keys()];
  for (const x of a.toLowerCase()) {
    const next = [(row[0] ?? 0) + 1];
    wanted.forEach((y, j) => {
      const replaced = (row[j] ?? 0) + (x === y ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    });
    row = next;
  }
  return row[wanted.length] ?? 0;
}

/** Formats a problem on one line. */
export function problemText({ place, message, remedy }: Problem): string {
  return `${place ? `${place}: ` : ""}${message}${remedy ? ` (${remedy})` : ""}`;
}
