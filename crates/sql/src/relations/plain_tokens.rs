//! Words that the parser does not know, or misses: `[not] materialized` behind the name of a common
//! table expression, which changes no rows, `filter (…)` without `where`, and
//! `trim(leading from s)`.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// Rewrites a text.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(is_word).collect();
    let word = |at: usize| words.get(at).map(|at| &tokens[*at].token);
    let (mut hints, mut additions, mut lists) = (vec![], vec![], vec![]);
    for at in 0..words.len() {
        let hint = at + 1 + usize::from(is(word(at + 1), Keyword::NOT));
        if is(word(at), Keyword::AS)
            && is(word(hint), Keyword::MATERIALIZED)
            && word(hint + 1) == Some(&Token::LParen)
        {
            hints.extend(words[at + 1..=hint].iter().copied());
        }
        if word(at) == Some(&Token::RParen)
            && is(word(at + 1), Keyword::FILTER)
            && word(at + 2) == Some(&Token::LParen)
            && !is(word(at + 3), Keyword::WHERE)
        {
            let keyword = Keyword::WHERE;
            let word = Word { value: "where".into(), quote_style: None, keyword };
            additions.push((words[at + 2] + 1, Token::Word(word)));
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
    for at in hints {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    // From the end, so that places before stay what they are.
    for (at, added) in additions.into_iter().rev() {
        let span = tokens[at - 1].span;
        let space = Token::Whitespace(Whitespace::Space);
        let added = [space.clone(), added, space].map(|token| TokenWithSpan { token, span });
        tokens.splice(at..at, added);
    }
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

fn is(token: Option<&Token>, keyword: Keyword) -> bool {
    match token {
        Some(Token::Word(word)) => word.keyword == keyword && word.quote_style.is_none(),
        _ => false,
    }
}
