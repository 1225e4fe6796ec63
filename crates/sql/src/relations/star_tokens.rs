//! `* like 'a%'`, which the parser does not know: `_columns` of a regular expression, which
//! `syntax_forms::star_columns` replaces. And `positional join`, which is refused.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use euphrates_flow::{Error, Result};

/// The function that stands for columns whose names match, or do not.
pub(crate) const MATCHING: &str = "_columns";

/// Rewrites the stars of a text; `order by *` is `order by all`.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while at < tokens.len() {
        let behind = tokens.iter().enumerate().skip(at + 1).filter(|(_, token)| !is_blank(token));
        let behind: Vec<usize> = behind.map(|(at, _)| at).take(4).collect();
        if is_word(&tokens[at], "positional")
            && behind.first().is_some_and(|next| is_word(&tokens[*next], "join"))
        {
            let remedy = "the rows of a table have no order: number those of both with \
                          `row_number() over (order by …)`, and join by the numbers";
            let error = Error::usage("`positional join` is not supported in a query");
            return Err(error.remedy(remedy));
        }
        let mut words = tokens[..at].iter().rev().filter(|token| !is_blank(token));
        let (before, ahead) = (words.next(), words.next());
        let is_order = before.is_some_and(|before| is_word(before, "by"))
            && ahead.is_some_and(|ahead| is_word(ahead, "order"));
        if tokens[at].token == Token::Mul && is_order {
            let all = Word { value: "all".into(), quote_style: None, keyword: Keyword::ALL };
            tokens[at].token = Token::Word(all);
        }
        let before = tokens[..at].iter().rev().find(|token| !is_blank(token));
        let begins = before.is_some_and(|before| {
            before.token == Token::Comma
                || ["select", "distinct", "all"].iter().any(|word| is_word(before, word))
        });
        if tokens[at].token == Token::Mul
            && begins
            && let Some((pattern, is_negated, last)) = pattern(tokens, &behind)
        {
            let span = tokens[at].span;
            let name = Word { value: MATCHING.into(), quote_style: None, keyword: NO };
            let sign = Word { value: is_negated.to_string(), quote_style: None, keyword: NO };
            let call = [
                Token::Word(name),
                Token::LParen,
                Token::SingleQuotedString(pattern),
                Token::Comma,
                Token::Word(sign),
                Token::RParen,
                Token::Whitespace(Whitespace::Space),
            ];
            tokens.splice(at..=last, call.map(|token| TokenWithSpan { token, span }));
        }
        at += 1;
    }
    Ok(())
}

const NO: Keyword = Keyword::NoKeyword;

/// The regular expression behind a star, whether it is one that must not match, and its last token.
fn pattern(tokens: &[TokenWithSpan], behind: &[usize]) -> Option<(String, bool, usize)> {
    let is_negated = is_word(&tokens[*behind.first()?], "not");
    let mut words = behind.iter().copied().skip(usize::from(is_negated));
    let operator = words.next()?;
    let mut last = words.next()?;
    let is_similar = is_word(&tokens[operator], "similar") && is_word(&tokens[last], "to");
    if is_similar {
        last = words.next()?;
    }
    let Token::SingleQuotedString(text) = &tokens[last].token else { return None };
    let is = |word: &str| is_word(&tokens[operator], word);
    let pattern = match () {
        () if is_similar => text.clone(),
        () if is("like") || is("ilike") => {
            let sign = |letter: char| match letter {
                '%' => ".*".to_string(),
                '_' => ".".to_string(),
                letter if letter.is_alphanumeric() => letter.to_string(),
                letter => format!("\\x{{{:X}}}", letter as u32),
            };
            let signs: String = text.chars().map(sign).collect();
            if is("ilike") { format!("(?i){signs}") } else { signs }
        }
        () if is("glob") => super::glob_tokens::regex(text),
        () => return None,
    };
    Some((format!("^(?:{pattern})$"), is_negated, last))
}

fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    let Token::Word(word) = &token.token else { return false };
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
}
