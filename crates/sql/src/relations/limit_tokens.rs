//! `limit 10%` and `limit 10 percent`, which the parser does not know: a call that marks the share,
//! until the plan is made.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The function that marks a limit as a share of all rows, in percent.
pub(crate) const PERCENT: &str = "_percent";

/// Marks the shares of a text.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at], "limit")
            && let Some((first, last, sign)) = share_behind(tokens, at)
        {
            let span = tokens[at].span;
            let token = |token| TokenWithSpan { token, span };
            tokens[sign] = token(Token::RParen);
            tokens.drain(last + 1..sign);
            let name =
                Word { value: PERCENT.into(), quote_style: None, keyword: Keyword::NoKeyword };
            tokens.splice(first..first, [token(Token::Word(name)), token(Token::LParen)]);
        }
        at += 1;
    }
}

/// The first and the last token of a number or of parentheses behind `limit`, and its sign.
fn share_behind(tokens: &[TokenWithSpan], limit: usize) -> Option<(usize, usize, usize)> {
    let first = next(tokens, limit)?;
    let last = match &tokens[first].token {
        Token::Number(..) => first,
        Token::LParen => closing(tokens, first)?,
        _ => return None,
    };
    let sign = next(tokens, last)?;
    let is_share = match &tokens[sign].token {
        // Before an operand, it is that of a remainder.
        Token::Mod => next(tokens, sign).is_none_or(|behind| match &tokens[behind].token {
            Token::Word(word) => word.keyword != Keyword::NoKeyword,
            Token::Number(..) | Token::LParen => false,
            _ => true,
        }),
        _ => is_word(&tokens[sign], "percent"),
    };
    is_share.then_some((first, last, sign))
}

/// The place of the next token that is no space.
pub(super) fn next(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    (at + 1..tokens.len()).find(|at| !is_blank(at))
}

/// The place of the parenthesis that ends what another one begins.
pub(super) fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

pub(super) fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
}
