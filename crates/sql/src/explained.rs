//! `explain` and `explain analyze` before a query.

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
    if first.is_some_and(|token| is_word(token, "describe") || is_word(token, "desc")) {
        return match words.next() {
            Some(token) => Ok((Explained::Columns, described(text, token))),
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

/// The query that is described; a name of a table is made one, in place of the word before it.
fn described(text: &str, first: &TokenWithSpan) -> String {
    let begins = ["select", "from", "with", "values", "pivot", "unpivot"];
    let is_query = begins.iter().any(|word| is_word(first, word)) || first.token == Token::LParen;
    let query = blank_until(text, first.span.start);
    if is_query { query } else { format!("from {}", query.trim_start()) }
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
