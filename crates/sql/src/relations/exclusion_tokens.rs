//! `exclude` in frames, which the parser does not know: it becomes one more key of the partition, a
//! text that marks the window until it is lowered.

use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use datafusion_sql::sqlparser::{ast, keywords::Keyword, tokenizer::Word};

/// What the text begins with.
const MARK: &str = "\u{1}exclude ";

/// Marks the windows of a text.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((what, end)) = exclusion(tokens, at)
            && let Some(opening) = opening(tokens, at)
        {
            let span = tokens[at].span;
            tokens.drain(at..end);
            let by = partition_by(tokens, opening, at);
            // Without parentheses, the planner would pass over a key that is a literal.
            let mark = Token::SingleQuotedString(format!("{MARK}{what}"));
            let mark = [Token::LParen, mark, Token::RParen];
            let added = match by {
                Some(_) => mark.into_iter().chain([Token::Comma]).collect::<Vec<_>>(),
                None => {
                    let partition = keyword("partition", Keyword::PARTITION);
                    [partition, keyword("by", Keyword::BY)].into_iter().chain(mark).collect()
                }
            };
            let place = by.map_or_else(|| behind_name(tokens, opening), |by| by + 1);
            let space = || Token::Whitespace(Whitespace::Space);
            let added = added.into_iter().flat_map(|token| [space(), token]).chain([space()]);
            let added = added.map(|token| TokenWithSpan { token, span }).collect::<Vec<_>>();
            tokens.splice(place..place, added);
        }
        at += 1;
    }
}

/// What a key of a partition says of the frame, if it is a mark.
pub(crate) fn marked(key: &Expr) -> Option<&str> {
    match key {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => text.strip_prefix(MARK),
        _ => None,
    }
}

/// Whether a key of a partition is a mark.
pub(crate) fn is_mark(key: &ast::Expr) -> bool {
    match key {
        ast::Expr::Nested(inner) => is_mark(inner),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.starts_with(MARK),
            _ => false,
        },
        _ => false,
    }
}

fn keyword(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// The words behind an `exclude` that ends a window, and where they end.
fn exclusion(tokens: &[TokenWithSpan], at: usize) -> Option<(&'static str, usize)> {
    if !is_word(&tokens[at], "exclude") {
        return None;
    }
    let behind = || tokens.iter().enumerate().skip(at + 1).filter(|(_, token)| !is_blank(token));
    let kinds = ["current row", "group", "ties", "no others"];
    kinds.into_iter().find_map(|kind| {
        let mut behind = behind();
        let is_same =
            kind.split(' ').all(|word| behind.next().is_some_and(|(_, it)| is_word(it, word)));
        let (end, closing) = behind.next()?;
        (is_same && closing.token == Token::RParen).then_some((kind, end))
    })
}

/// The parenthesis that opens what is open here.
fn opening(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0;
    (0..at).rev().find(|at| match tokens[*at].token {
        Token::RParen => {
            depth += 1;
            false
        }
        Token::LParen if depth > 0 => {
            depth -= 1;
            false
        }
        ref token => *token == Token::LParen,
    })
}

/// The place of the `by` of `partition by` in a window.
fn partition_by(tokens: &[TokenWithSpan], opening: usize, end: usize) -> Option<usize> {
    let mut depth = 0;
    let mut is_behind = false;
    for (at, token) in tokens.iter().enumerate().take(end).skip(opening + 1) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if is_blank(token) || depth > 0 => continue,
            _ if is_behind && is_word(token, "by") => return Some(at),
            _ => {}
        }
        is_behind = depth == 0 && is_word(token, "partition");
    }
    None
}

/// The place behind the name of the window that a window extends, if it has one.
fn behind_name(tokens: &[TokenWithSpan], opening: usize) -> usize {
    let first = (opening + 1..tokens.len()).find(|at| !is_blank(&tokens[*at]));
    let own = ["order", "rows", "range", "groups"];
    match first {
        Some(at) if own.iter().any(|word| is_word(&tokens[at], word)) => opening + 1,
        Some(at) if matches!(tokens[at].token, Token::Word(_)) => at + 1,
        _ => opening + 1,
    }
}
