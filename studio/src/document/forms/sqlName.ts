// Names of columns and tables as SQL writes them.

/** Words of conditions and other expressions. */
export const EXPRESSION_WORDS =
  "and or not in is null between like case when then else end cast as true false distinct";
/** Words of whole queries, beside those of expressions. */
export const QUERY_WORDS =
  "select from where group by having order limit offset join left right full inner on using " +
  "union all with over partition asc desc";
/** Words that mean something in SQL, but are not completed. */
const OTHER_WORDS =
  "any array current_date current_time current_timestamp date escape except exists extract " +
  "filter for ilike intersect interval isnull lambda map natural notnull nulls outer overlay " +
  "position row rows some struct table time timestamp try_cast unnest user values window within";

const KEYWORDS: ReadonlySet<string> = new Set(
  `${EXPRESSION_WORDS} ${QUERY_WORDS} ${OTHER_WORDS}`.split(" "),
);

/** A name as SQL writes it: in quotes unless it is of small letters and no keyword. */
export function sqlName(name: string): string {
  const isPlain = /^[a-z_][a-z0-9_]*$/.test(name) && !KEYWORDS.has(name);
  return isPlain ? name : `"${name.replaceAll('"', '""')}"`;
}
