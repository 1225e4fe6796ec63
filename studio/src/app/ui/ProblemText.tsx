// A problem as text: message, the lines that show a place in an expression, and remedy.

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
