//! `asof join`, as DuckDB writes it, which the parser does not know: an ordinary join whose
//! condition begins with a call that marks it, until the plan is made. With `using`, the call is a
//! condition of the right table.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
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
            if let Some(using) = word_behind(tokens, join, "using") {
                mark_table(tokens, join, using);
                tokens.remove(at);
                continue;
            }
            let on = word_behind(tokens, join, "on").ok_or_else(|| {
                let error = Error::usage("an asof join has no condition");
                let remedy = "write `asof join t on a.key = t.key and a.time >= t.time`, or \
                              `asof join t using (key, time)`";
                error.remedy(remedy)
            })?;
            let mark = mark_call().into_iter().chain([word("and", Keyword::AND)]);
            let mark = spaced(mark, &tokens[on]);
            tokens.splice(on + 1..=on, mark);
            tokens.remove(at);
        }
        at += 1;
    }
    Ok(())
}

/// `join t using (…)` becomes `join (select * from t where …) as t using (…)`, with the mark as the
/// condition.
fn mark_table(tokens: &mut Vec<TokenWithSpan>, join: usize, using: usize) {
    let alias = alias_of(&tokens[join + 1..using]);
    let last = [word("where", Keyword::WHERE)].into_iter().chain(mark_call());
    let last = last.chain([Token::RParen]);
    let alias = alias.into_iter().flat_map(|alias| [word("as", Keyword::AS), alias]);
    let last = spaced(last.chain(alias), &tokens[using]);
    tokens.splice(using..using, last);
    let first =
        [Token::LParen, word("select", Keyword::SELECT), Token::Mul, word("from", Keyword::FROM)];
    let first = spaced(first, &tokens[join]);
    tokens.splice(join + 1..=join, first);
}

/// The name of a table: the last word, perhaps before names of columns in parentheses.
fn alias_of(table: &[TokenWithSpan]) -> Option<Token> {
    let mut depth = 0_usize;
    for token in table.iter().rev() {
        match &token.token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.checked_sub(1)?,
            Token::Word(_) if depth == 0 => return Some(token.token.clone()),
            _ => {}
        }
    }
    None
}

fn mark_call() -> [Token; 4] {
    let one = Token::Number("1".into(), false);
    [word(MARK, Keyword::NoKeyword), Token::LParen, one, Token::RParen]
}

/// The tokens with spaces before them and after the last, at the place of another one.
fn spaced(tokens: impl IntoIterator<Item = Token>, place: &TokenWithSpan) -> Vec<TokenWithSpan> {
    let span = place.span;
    let space = || Token::Whitespace(Whitespace::Space);
    let spaced = tokens.into_iter().flat_map(|token| [space(), token]).chain([space()]);
    spaced.map(|token| TokenWithSpan { token, span }).collect()
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

/// The place of a word that begins the join's condition.
fn word_behind(tokens: &[TokenWithSpan], join: usize, wanted: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(join + 1) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth == 0 && is_word(token, wanted) => return Some(at),
            _ if depth == 0
                && ["join", "where", "using", "on"].iter().any(|it| is_word(token, it)) =>
            {
                return None;
            }
            _ => {}
        }
    }
    None
}
