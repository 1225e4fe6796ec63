// A problem as text: its message, with the lines that show the place in an expression, and its remedy.

import type { Problem } from "../../document/problem";

export function ProblemText({ problem }: { readonly problem: Problem }) {
  const { place, message, remedy } = problem;
  const [first = "", ...lines] = message.split("\n");
  return (
    <>
      {place ? `${place}: ` : ""}
      {first}
      {lines.length > 0 && <span className="excerpt">{lines.join("\n")}</span>}
      {remedy && (
        <>
          {" "}
          <span className="remedy">{lines.length > 0 ? remedy : `(${remedy})`}</span>
        </>
      )}
    </>
  );
}
