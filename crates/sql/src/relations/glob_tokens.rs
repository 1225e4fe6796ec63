//! `glob 'a*'`, which the parser does not know: `similar to` the regular expression that it is. A
//! pattern that is not quoted text is matched by a function, and the operator is `~~` until then;
//! a `~~` of the query is `like`, as in PostgreSQL.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The function of texts and patterns.
pub(crate) const GLOB: &str = "_glob";

/// Rewrites the operators.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    for token in tokens.iter_mut().filter(|token| token.token == Token::DoubleTilde) {
        token.token = word("like", Keyword::LIKE);
    }
    let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(is_word).collect();
    let (mut found, mut others) = (vec![], vec![]);
    for three in words.windows(3) {
        let [before, at, pattern] = three else { continue };
        let is_glob = match &tokens[*at].token {
            Token::Word(word) => {
                word.quote_style.is_none() && word.value.eq_ignore_ascii_case("glob")
            }
            _ => false,
        };
        match &tokens[*pattern].token {
            _ if !is_glob || !ends_operand(&tokens[*before].token) => {}
            Token::SingleQuotedString(text) => found.push((*at, *pattern, regex(text))),
            Token::Word(word) if word.quote_style.is_none() && is_end(word.keyword) => {}
            Token::Word(_) | Token::LParen => others.push(*at),
            _ => {}
        }
    }
    for at in others {
        tokens[at].token = Token::DoubleTilde;
    }
    // From the end, so that places before stay what they are.
    for (at, pattern, regex) in found.into_iter().rev() {
        tokens[pattern].token = Token::SingleQuotedString(regex);
        let span = tokens[at].span;
        let space = Token::Whitespace(Whitespace::Space);
        let words = [word("similar", Keyword::SIMILAR), space, word("to", Keyword::TO)];
        tokens.splice(at..=at, words.map(|token| TokenWithSpan { token, span }));
    }
}

fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

/// Whether a word ends an expression, so that what is before it is a name.
fn is_end(word: Keyword) -> bool {
    use Keyword::{AND, AS, FROM, GROUP, HAVING, IS, LIMIT, NOT, OR, ORDER, WHERE};
    [AND, AS, FROM, GROUP, HAVING, IS, LIMIT, NOT, OR, ORDER, WHERE].contains(&word)
}

/// Whether an operator may follow a token.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword != Keyword::AS && word.keyword != Keyword::SELECT,
        Token::SingleQuotedString(_) | Token::RParen | Token::RBracket => true,
        _ => false,
    }
}

/// The regular expression of a pattern: `*` is any text, `?` any character, and `[a-c]` one of
/// these; behind a backslash each stands for itself. `similar to` takes `%` and `_` for such signs,
/// so they are written by their numbers.
pub(super) fn regex(pattern: &str) -> String {
    let mut regex = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => regex += ".*",
            '?' => regex.push('.'),
            '[' => {
                regex.push('[');
                if letters.next_if_eq(&'!').is_some() {
                    regex.push('^');
                }
                let mut is_first = true;
                for letter in letters.by_ref() {
                    match letter {
                        ']' if !is_first => break,
                        '-' => regex.push('-'),
                        other => regex += &plain(other),
                    }
                    is_first = false;
                }
                regex.push(']');
            }
            '\\' => regex += &plain(letters.next().unwrap_or('\\')),
            other => regex += &plain(other),
        }
    }
    regex
}

/// A character that stands for itself.
fn plain(letter: char) -> String {
    match letter.is_alphanumeric() {
        true => letter.to_string(),
        false => format!("\\x{{{:X}}}", letter as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_patterns_are_those_of_regular_expressions() {
        assert_eq!(regex("a*[!b-d]?"), "a.*[^b-d].");
        assert_eq!(regex("[]]\\*%_"), "[\\x{5D}]\\x{2A}\\x{25}\\x{5F}");
    }
}
