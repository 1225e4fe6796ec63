//! `asof join`, as DuckDB writes it, which the parser does not know: an ordinary join whose
//! condition begins with a call that marks it, until the plan is made.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use euphrates_flow::{Error, Result};

/// The function whose call marks a join.
pub(crate) const MARK: &str = "asof_join";

/// Marks the joins of a text.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at], "asof")
            && let Some(join) = join_behind(tokens, at)
        {
            let on = condition_behind(tokens, join).ok_or_else(|| {
                let error = Error::usage("an asof join has no condition");
                error.remedy("write `asof join t on a.key = t.key and a.time >= t.time`")
            })?;
            let mark = [
                word(MARK, Keyword::NoKeyword),
                Token::LParen,
                Token::Number("1".into(), false),
                Token::RParen,
                word("and", Keyword::AND),
            ];
            let span = tokens[on].span;
            let mark = mark.into_iter().flat_map(|token| {
                let space = datafusion_sql::sqlparser::tokenizer::Whitespace::Space;
                [Token::Whitespace(space), token].map(|token| TokenWithSpan { token, span })
            });
            tokens.splice(on + 1..=on, mark);
            tokens.remove(at);
        }
        at += 1;
    }
    Ok(())
}

fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
}

/// The place of `join` behind `asof`, with what kind of join it is between.
fn join_behind(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let behind = tokens.iter().enumerate().skip(at + 1);
    for (at, token) in behind {
        match &token.token {
            Token::Whitespace(_) => {}
            _ if ["left", "inner", "outer"].iter().any(|kind| is_word(token, kind)) => {}
            _ => return is_word(token, "join").then_some(at),
        }
    }
    None
}

/// The place of the join's `on`.
fn condition_behind(tokens: &[TokenWithSpan], join: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(join + 1) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 && is_word(token, "on") => return Some(at),
            _ if depth == 0 && ["join", "where", "using"].iter().any(|it| is_word(token, it)) => {
                return None;
            }
            _ => {}
        }
    }
    None
}
