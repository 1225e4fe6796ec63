//! `explain`, `explain analyze`, `describe` and `summarize` before a query.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use euphrates_flow::Result;

use crate::statement;

/// What a text asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explained {
    /// The rows of the query, or what the statement does.
    Rows,
    /// How the query would run.
    Plan,
    /// How it has run.
    Run,
    /// The names and types of its columns: `describe` before a query or the name of a table.
    Columns,
    /// Facts of its columns: `summarize` before a query or the name of a table.
    Facts,
}

/// What a text asks for, and its query: the words before it are blank, so that places in the text
/// are the same.
///
/// # Errors
///
/// Usage errors name what cannot be read.
///
/// ```
/// use euphrates_sql::Explained;
///
/// let (explained, query) = euphrates_sql::explained("explain analyze select 1")?;
/// assert_eq!((explained, query.trim()), (Explained::Run, "select 1"));
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn explained(text: &str) -> Result<(Explained, String)> {
    let tokens = statement::tokens(text)?;
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let rows = || Ok((Explained::Rows, text.to_string()));
    let first = words.next();
    let of_columns = match first {
        Some(token) if is_word(token, "describe") || is_word(token, "desc") => {
            Some(Explained::Columns)
        }
        Some(token) if is_word(token, "summarize") => Some(Explained::Facts),
        _ => None,
    };
    if let Some(explained) = of_columns {
        return match words.next() {
            Some(token) => Ok((explained, described(text, token))),
            None => rows(),
        };
    }
    if !first.is_some_and(|token| is_word(token, "explain")) {
        return rows();
    }
    let (explained, first) = match words.next() {
        Some(token) if is_word(token, "analyze") => (Explained::Run, words.next()),
        other => (Explained::Plan, other),
    };
    match first {
        Some(token) => Ok((explained, blank_until(text, token.span.start))),
        None => rows(),
    }
}

/// The query whose columns are described; a name of a table is made one, in place of the word
/// before it.
fn described(text: &str, first: &TokenWithSpan) -> String {
    let begins = ["select", "from", "with", "values", "pivot", "unpivot"];
    let is_query = begins.iter().any(|word| is_word(first, word)) || first.token == Token::LParen;
    let query = blank_until(text, first.span.start);
    if is_query { query } else { format!("from {}", query.trim_start()) }
}

/// The query that computes the facts of `summarize` of the rows of a table `self` with these
/// columns: a row for each of them, of one aggregate over all.
///
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
///
/// let columns = Schema::new(vec![Field::new("price", DataType::Int64, true)]);
/// assert!(euphrates_sql::summary(&columns).contains("min(\"price\")"));
/// ```
pub fn summary(columns: &Schema) -> String {
    let rows: Vec<String> = columns.fields().iter().map(|column| facts(column)).collect();
    let rows = rows.join(", ");
    let chosen = FACTS.map(|fact| format!("of.facts.{fact} as {fact}")).join(", ");
    format!("select {chosen} from (select unnest([{rows}]) as facts from self) as of")
}

const FACTS: [&str; 12] = [
    "column_name",
    "column_type",
    "min",
    "max",
    "approx_unique",
    "avg",
    "std",
    "q25",
    "q50",
    "q75",
    "count",
    "null_percentage",
];

/// The facts of a column, as a struct that is written in SQL.
fn facts(column: &Field) -> String {
    let name = format!("\"{}\"", column.name().replace('"', "\"\""));
    let of = match column.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let is_compared = !of.is_nested() && !matches!(of, DataType::Interval(_));
    let if_compared = |value: String, other: &str| match is_compared {
        true => value,
        false => format!("null::{other}"),
    };
    let if_number = |value: String| match of.is_numeric() {
        true => value,
        false => "null::double".into(),
    };
    let text = |value: String| format!("'{}'", value.replace('\'', "''"));
    let quartile = |part: f64| if_number(format!("approx_quantile({name}::double, {part})"));
    let values = [
        text(column.name().clone()),
        text(column.data_type().to_string()),
        if_compared(format!("min({name})::text"), "text"),
        if_compared(format!("max({name})::text"), "text"),
        if_compared(format!("approx_distinct({name})::bigint"), "bigint"),
        if_number(format!("avg({name})::double")),
        if_number(format!("stddev({name})::double")),
        quartile(0.25),
        quartile(0.5),
        quartile(0.75),
        "count(*)".into(),
        format!("(count(*) - count({name})) * 100.0::double / nullif(count(*), 0)"),
    ];
    let fields = FACTS.iter().zip(values).map(|(fact, value)| format!("'{fact}': {value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// The statements of a text, between which a `;` stands; those without a word are left out. Each
/// has blanks in place of those before it, so that places in the text are the same.
///
/// # Errors
///
/// Usage errors name what cannot be read.
///
/// ```
/// let statements = euphrates_sql::statements("select ';'; -- no word\n;\nselect 2")?;
/// let words: Vec<&str> = statements.iter().map(|one| one.trim()).collect();
/// assert_eq!(words, ["select ';'", "select 2"]);
/// # Ok::<(), euphrates_flow::Error>(())
/// ```
pub fn statements(text: &str) -> Result<Vec<String>> {
    let tokens = statement::tokens(text)?;
    let mut found = vec![];
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        let mut words = part.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        if let Some(first) = words.next() {
            let last = words.next_back().unwrap_or(first);
            let blank = blank_until(text, first.span.start);
            found.push(cut_at(&blank, last.span.end));
        }
    }
    Ok(found)
}

/// The text before a place.
fn cut_at(text: &str, place: Location) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').take(place.line as usize).collect();
    let (last, before) = lines.split_last().map_or(("", &[][..]), |(last, rest)| (*last, rest));
    let last = last.chars().take(place.column as usize - 1);
    before.concat() + &last.collect::<String>()
}

fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
}

/// The text with spaces before a place.
fn blank_until(text: &str, place: Location) -> String {
    let mut blank = String::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let number = at as u64 + 1;
        let blanks = match number.cmp(&place.line) {
            std::cmp::Ordering::Less => usize::MAX,
            std::cmp::Ordering::Equal => place.column as usize - 1,
            std::cmp::Ordering::Greater => 0,
        };
        let of = |(at, one): (usize, char)| if at < blanks && one != '\n' { ' ' } else { one };
        blank.extend(line.chars().enumerate().map(of));
    }
    blank
}
