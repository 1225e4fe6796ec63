//! `x in list` and `x not in list` of a column or a call, which the parser knows of values in
//! parentheses alone: they become `x = any (…)` and `x <> all (…)` of a call that no text can name.

use datafusion_sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The function that marks the list. A name in a text has no blank without quotes.
const LIST: &str = "list of";

/// Writes such tests of a text.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(is_word).collect();
    let mut tests = vec![];
    for (at, place) in places.iter().enumerate().skip(1) {
        let word = |at: usize| places.get(at).map(|at| &tokens[*at].token);
        let is_test = keyword(&tokens[*place].token) == Some(Keyword::IN)
            && !(at >= 2 && word(at - 2).and_then(keyword) == Some(Keyword::FOR))
            && !is_position(tokens, &places[..at]);
        if let Some(end) = end_of_list(tokens, &places[at + 1..]).filter(|_| is_test) {
            let is_not = word(at - 1).and_then(keyword) == Some(Keyword::NOT);
            tests.push((if is_not { places[at - 1] } else { *place }, places[at + 1], end, is_not));
        }
    }
    // From the end, so that places before stay what they are.
    for (begin, list, end, is_not) in tests.into_iter().rev() {
        let span = tokens[begin].span;
        let spanned = |token| TokenWithSpan { token, span };
        let name = |value: &str, keyword| {
            spanned(Token::Word(Word { value: value.into(), quote_style: None, keyword }))
        };
        tokens.splice(end..end, [Token::RParen, Token::RParen].map(spanned));
        let (sign, kind) = match is_not {
            true => (Token::Neq, name("all", Keyword::ALL)),
            false => (Token::Eq, name("any", Keyword::ANY)),
        };
        let [open, again, space] =
            [Token::LParen, Token::LParen, Token::Whitespace(Whitespace::Space)].map(spanned);
        let opening = [
            spanned(sign),
            space.clone(),
            kind,
            open,
            name(LIST, Keyword::NoKeyword),
            again,
            space,
        ];
        tokens.splice(begin..list, opening);
    }
}

/// The test that a comparison with a marking call stands for.
pub(super) fn unmarked(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp { left, right, .. } => (left, right, false),
        Expr::AllOp { left, right, .. } => (left, right, true),
        _ => return None,
    };
    let array_expr = Box::new(list_of(right)?.clone());
    Some(Expr::InUnnest { expr: left.clone(), array_expr, negated })
}

/// The list that a marking call has.
fn list_of(expr: &Expr) -> Option<&Expr> {
    let call = match expr {
        Expr::Nested(inner) => return list_of(inner),
        Expr::Function(call) => call,
        _ => return None,
    };
    let [part] = &call.name.0[..] else { return None };
    let is_mark = part.as_ident().is_some_and(|it| it.value == LIST && it.quote_style.is_none());
    let FunctionArguments::List(list) = &call.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] if is_mark => Some(list),
        _ => None,
    }
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Whether the innermost open parenthesis is that of `position('a' in s)`.
fn is_position(tokens: &[TokenWithSpan], before: &[usize]) -> bool {
    let mut depth = 0_usize;
    for (at, place) in before.iter().enumerate().rev() {
        match tokens[*place].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => {
                let name = at.checked_sub(1).map(|at| &tokens[before[at]].token);
                return name.and_then(keyword) == Some(Keyword::POSITION);
            }
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    false
}

/// The place behind a column, `t.tags`, or a call, `split(s, ',')`, that begins at the first of
/// these.
fn end_of_list(tokens: &[TokenWithSpan], places: &[usize]) -> Option<usize> {
    let token = |at: usize| places.get(at).map(|at| &tokens[*at].token);
    let is_name = |token: &Token| match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !matches!(word.keyword, Keyword::SELECT | Keyword::UNNEST | Keyword::ANY)
        }
        _ => false,
    };
    if !token(0).is_some_and(is_name) {
        return None;
    }
    let mut last = 0;
    while token(last + 1) == Some(&Token::Period) && token(last + 2).is_some_and(is_name) {
        last += 2;
    }
    if token(last + 1) == Some(&Token::LParen) {
        let mut depth = 0_usize;
        last += 1;
        loop {
            match token(last)? {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            last += 1;
        }
    }
    Some(places[last] + 1)
}
