//! Parses text to a syntax tree; errors point at their position in the text.

use std::ops::Range;

use euphrates_flow::{Error, Result};
use sqlparser::ast::{self, SelectItem};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::dialect::Sql;

/// Maximum bytes of an expression.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Maximum words and signs, without literals and commas: each may be one level of the tree, and
/// trees are dropped recursively.
const WORDS_MAX: usize = 4096;

/// Maximum characters of a line shown around an error.
const SHOWN_CHARS: usize = 72;

/// Parses one expression, which must be the whole text.
pub(crate) fn parse_expression(text: &str) -> Result<ast::Expr> {
    parse(text, |parser| parser.parse_expr())
}

/// Parses expressions with names, or `*`, separated by commas.
pub(crate) fn parse_items(text: &str) -> Result<Vec<SelectItem>> {
    parse(text, |parser| parser.parse_comma_separated(|parser| parser.parse_select_item()))
}

fn parse<T>(text: &str, grammar: impl FnOnce(&mut Parser) -> Result<T, ParserError>) -> Result<T> {
    let dialect = Sql::of_words(WORDS_MAX);
    let tokens = tokens(text, &dialect)?;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let parsed = grammar(&mut parser).map_err(|error| explain(text, &error))?;
    let rest = parser.peek_token();
    match rest.token {
        Token::EOF => Ok(parsed),
        token => {
            let message = format!("`{token}` is not expected here");
            Err(located(text, message, rest.span.start))
        }
    }
}

fn tokens(text: &str, dialect: &Sql) -> Result<Vec<TokenWithSpan>> {
    let too_long = || Err(Error::usage("the expression is too long").remedy("use several modules"));
    if text.len() > TEXT_BYTES_MAX {
        return too_long();
    }
    let tokens = Tokenizer::new(dialect, text)
        .tokenize_with_location()
        .map_err(|error| located(text, &error.message, error.location))?;
    let free = |token: &TokenWithSpan| {
        use Token::*;
        matches!(token.token, Comma | Whitespace(_) | Number(..) | SingleQuotedString(_))
    };
    match tokens.iter().filter(|token| !free(token)).count() {
        0..=WORDS_MAX => Ok(tokens),
        _ => too_long(),
    }
}

/// The tokens of a text without blanks and comments; `None` if it cannot be tokenized.
pub(super) fn words(text: &str) -> Option<Vec<Token>> {
    let tokens = tokens(text, &Sql::of_words(WORDS_MAX)).ok()?.into_iter();
    let tokens = tokens.map(|token| token.token);
    Some(tokens.filter(|token| !matches!(token, Token::Whitespace(_))).collect())
}

/// The ranges of the outermost calls of the functions for which `is_wanted` holds; `None` if the
/// text cannot be tokenized.
pub(crate) fn outermost_calls(
    text: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<Vec<Range<usize>>> {
    let tokens = tokens(text, &Sql::of_words(WORDS_MAX)).ok()?;
    let tokens: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let is_call = |at: usize| {
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        let opens = tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen);
        let Token::Word(word) = &tokens[at].token else { return false };
        opens
            && before != Some(&Token::Period)
            && word.quote_style.is_none()
            && is_wanted(&word.value)
    };
    let (mut found, mut at) = (vec![], 0);
    while at < tokens.len() {
        if !is_call(at) {
            at += 1;
            continue;
        }
        let start = at;
        at = closing(&tokens, at + 1)?;
        while let Some(opening) = opening_of_clause(&tokens, at) {
            at = closing(&tokens, opening)?;
        }
        found.push(offset(text, tokens[start].span.start)..offset(text, tokens[at].span.end));
        at += 1;
    }
    Some(found)
}

/// The parenthesis that closes the one here.
fn closing(tokens: &[&TokenWithSpan], opening: usize) -> Option<usize> {
    let mut depth = 0;
    let closes = |token: &&TokenWithSpan| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    };
    Some(opening + tokens[opening..].iter().position(closes)?)
}

/// The opening parenthesis of `filter (…)` or `within group (…)` behind a call that ends here.
fn opening_of_clause(tokens: &[&TokenWithSpan], end: usize) -> Option<usize> {
    let is = |at: usize, keyword| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.keyword == keyword && word.quote_style.is_none(),
        _ => false,
    };
    let opening = match is(end + 1, Keyword::FILTER) {
        true => end + 2,
        false if is(end + 1, Keyword::WITHIN) && is(end + 2, Keyword::GROUP) => end + 3,
        false => return None,
    };
    tokens.get(opening).filter(|token| token.token == Token::LParen).map(|_| opening)
}

/// The byte offset of a location in the text.
fn offset(text: &str, location: Location) -> usize {
    let lines = text.split_inclusive('\n').take((location.line as usize).saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    let line = &text[before..];
    let column = (location.column as usize).saturating_sub(1);
    before + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at)
}

/// The parser's error, with its position removed from the message and shown by a caret.
fn explain(text: &str, error: &ParserError) -> Error {
    let (message, position) = match error {
        ParserError::RecursionLimitExceeded => {
            return Error::usage("the expression is nested too deeply").remedy("simplify it");
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            match message.rsplit_once(" at Line: ") {
                Some((message, position)) => (message, position),
                None => (message.as_str(), ""),
            }
        }
    };
    let message = match message.strip_prefix("Expected: ") {
        Some(rest) => format!("expected {}", rest.replace("EOF", "the end of the expression")),
        None => message.to_string(),
    };
    match position.split_once(", Column: ") {
        Some((line, column)) => {
            let location = Location::new(number(line), number(column));
            located(text, message, location)
        }
        // The parser gives no position at the end of the text.
        None => located(text, message, end_of(text)),
    }
}

fn number(digits: &str) -> u64 {
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(1)
}

fn end_of(text: &str) -> Location {
    let line = text.lines().count().max(1);
    let column = text.lines().last().map_or(0, |line| line.chars().count()) + 1;
    Location::new(line as u64, column as u64)
}

/// An error with its line, and a caret under its position.
pub(crate) fn located(text: &str, message: impl std::fmt::Display, location: Location) -> Error {
    let line = text.lines().nth((location.line as usize).saturating_sub(1)).unwrap_or("");
    let line: Vec<char> =
        line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let at = (location.column as usize).saturating_sub(1).min(line.len());
    let from = at.saturating_sub(SHOWN_CHARS / 2);
    let shown: String = line[from..].iter().take(SHOWN_CHARS).collect();
    Error::usage(format!("{message}\n    {shown}\n    {}^", " ".repeat(at - from)))
}

/// The error for SQL that is not supported here.
pub(crate) fn unsupported(what: String) -> Error {
    Error::usage(format!("{what} is not supported in expressions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_at_their_place() {
        for (text, caret) in [
            ("a > ) ", 4),
            ("a b", 2),
            ("a in (1, 2", 10),
            ("lower(a", 7),
            ("a = 'open", 4),
            ("1 +", 3),
            ("", 0),
        ] {
            let error = parse_expression(text).unwrap_err();
            let message = error.message();
            let last = message.lines().last().unwrap();
            assert_eq!(last.find('^'), Some(caret + 4), "{message}");
        }
    }

    #[test]
    fn long_and_deep_texts_are_refused_on_a_small_stack() {
        let deep = ["(".repeat(10_000), "-".repeat(10_000), "not ".repeat(10_000)];
        let long = ["1+a".repeat(100_000), "a".to_string() + &"::int".repeat(3000)];
        for text in deep.iter().chain(&long) {
            assert!(parse_expression(text).is_err());
        }
        // The deepest tree; dropping it must fit the stack of a test thread.
        let text = "a".to_string() + &"+a".repeat(WORDS_MAX / 2 - 1);
        assert!(parse_expression(&text).is_ok());
    }
}
