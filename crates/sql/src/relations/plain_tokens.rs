//! Words that the parser does not know, or misses: `[not] materialized` behind the name of a common
//! table expression, which changes no rows, `filter (…)` without `where`, `trim(leading from s)`,
//! `x isnull` and `x notnull`, `interval (2) day`, `in ((select 1), 2)`, and a comma behind the
//! last row of `values`.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

use super::limit_tokens::{closing, next};
use super::power_tokens::ends_operand;

/// Rewrites a text.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    for token in tokens.iter_mut() {
        if matches!(token.token, Token::Char(sign) if is_invisible(sign)) {
            token.token = Token::Whitespace(Whitespace::Space);
        }
    }
    let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(is_word).collect();
    let word = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let (mut dropped, mut additions, mut lists, mut tests) = (vec![], vec![], vec![], vec![]);
    for at in 0..words.len() {
        let is_test = at > 0 && ends_operand(tokens, words[at - 1]);
        let is_null = is_named(word(at), "isnull");
        if is_test && (is_null || is_named(word(at), "notnull")) {
            tests.push(words[at]);
            let words_behind: &[_] = match is_null {
                true => &[("null", Keyword::NULL)],
                false => &[("not", Keyword::NOT), ("null", Keyword::NULL)],
            };
            let behind = words[at] + 1;
            additions.extend(words_behind.iter().map(|it| (behind, unquoted(it.0, it.1))));
        }
        // The parser takes `interval (2)` for a type with a number of digits.
        if is(word(at), Keyword::INTERVAL)
            && word(at + 1) == Some(&Token::LParen)
            && matches!(word(at + 2), Some(Token::Number(..)))
            && word(at + 3) == Some(&Token::RParen)
        {
            dropped.extend([words[at + 1], words[at + 3]]);
        }
        // `values (1), (2),`: the comma behind the last row.
        if word(at) == Some(&Token::RParen)
            && word(at + 1) == Some(&Token::Comma)
            && matches!(word(at + 2), Some(Token::RParen) | None)
        {
            dropped.push(words[at + 1]);
        }
        // The parser takes `in ((select 1), 2)` for a subquery.
        if is(word(at), Keyword::IN)
            && word(at + 1) == Some(&Token::LParen)
            && word(at + 2) == Some(&Token::LParen)
            && is(word(at + 3), Keyword::SELECT)
            && let Some(end) = closing(tokens, words[at + 2])
            && next(tokens, end).is_some_and(|behind| tokens[behind].token == Token::Comma)
        {
            additions.push((words[at + 1] + 1, unquoted("coalesce", Keyword::COALESCE)));
            additions.push((words[at + 1] + 1, Token::LParen));
            additions.push((end + 1, Token::RParen));
        }
        let hint = at + 1 + usize::from(is(word(at + 1), Keyword::NOT));
        if is(word(at), Keyword::AS)
            && is(word(hint), Keyword::MATERIALIZED)
            && word(hint + 1) == Some(&Token::LParen)
        {
            dropped.extend(words[at + 1..=hint].iter().copied());
        }
        if word(at) == Some(&Token::RParen)
            && is(word(at + 1), Keyword::FILTER)
            && word(at + 2) == Some(&Token::LParen)
            && !is(word(at + 3), Keyword::WHERE)
        {
            additions.push((words[at + 2] + 1, unquoted("where", Keyword::WHERE)));
        }
        if is(word(at), Keyword::TRIM)
            && word(at + 1) == Some(&Token::LParen)
            && [Keyword::LEADING, Keyword::TRAILING, Keyword::BOTH]
                .into_iter()
                .any(|side| is(word(at + 2), side))
            && is(word(at + 3), Keyword::FROM)
        {
            additions.push((words[at + 3], Token::SingleQuotedString(" ".into())));
        }
        // Not `[x for x in [1, 2]]`.
        let is_comprehension = at >= 2 && is(word(at - 2), Keyword::FOR);
        if is(word(at), Keyword::IN)
            && word(at + 1) == Some(&Token::LBracket)
            && word(at + 2) != Some(&Token::RBracket)
            && !is_comprehension
        {
            let end = end_of_list(&words[at + 1..], tokens);
            let is_written = |end: &usize| {
                !tokens[words[at + 1]..*end].iter().any(|it| is(Some(&it.token), Keyword::FOR))
            };
            lists.extend(end.filter(is_written).map(|end| (words[at + 1], end)));
        }
    }
    for (begin, end) in lists {
        (tokens[begin].token, tokens[end].token) = (Token::LParen, Token::RParen);
    }
    for at in tests {
        tokens[at].token = unquoted("is", Keyword::IS);
    }
    for at in dropped {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    additions.sort_by_key(|(at, _)| *at);
    // From the end, so that places before stay what they are.
    for (at, added) in additions.into_iter().rev() {
        let span = tokens[at - 1].span;
        let space = Token::Whitespace(Whitespace::Space);
        let added = [space.clone(), added, space].map(|token| TokenWithSpan { token, span });
        tokens.splice(at..at, added);
    }
}

/// Spaces that no screen shows, and other spaces than the parser knows.
fn is_invisible(sign: char) -> bool {
    sign.is_whitespace() || matches!(sign, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// The place of the bracket that closes the first of these tokens.
fn end_of_list(places: &[usize], tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0;
    places.iter().copied().find(|at| {
        match tokens[*at].token {
            Token::LBracket => depth += 1,
            Token::RBracket => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn unquoted(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

fn is_named(token: Option<&Token>, name: &str) -> bool {
    matches!(token, Some(Token::Word(Word { value, quote_style: None, .. }))
        if value.eq_ignore_ascii_case(name))
}

fn is(token: Option<&Token>, keyword: Keyword) -> bool {
    match token {
        Some(Token::Word(word)) => word.keyword == keyword && word.quote_style.is_none(),
        _ => false,
    }
}
