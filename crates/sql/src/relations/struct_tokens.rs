//! `struct(a int, b text)` as the type of a cast, which the parser knows with angle brackets.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes such types with angle brackets.
pub(crate) fn mark(tokens: &mut [TokenWithSpan]) {
    let is_word = |at: &usize| !matches!(tokens[*at].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(is_word).collect();
    // Whether each parenthesis that is open is one of a type.
    let mut open: Vec<bool> = vec![];
    for at in 0..words.len() {
        let before = at.checked_sub(1).map(|before| tokens[words[before]].token.clone());
        match &tokens[words[at]].token {
            Token::LParen => {
                let opens = before.as_ref().is_some_and(is_struct)
                    && at.checked_sub(2).is_some_and(|at| {
                        let within = open.last() == Some(&true);
                        is_before_type(&tokens[words[at]].token, within)
                    });
                open.push(opens);
                if opens {
                    tokens[words[at]].token = Token::Lt;
                }
            }
            Token::RParen if open.pop() == Some(true) => {
                tokens[words[at]].token = Token::Gt;
            }
            _ => {}
        }
    }
}

fn is_struct(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword == Keyword::STRUCT && word.quote_style.is_none(),
        _ => false,
    }
}

/// Whether a type stands behind a token: a sign of a cast, or the name of a field.
fn is_before_type(token: &Token, is_within_type: bool) -> bool {
    match token {
        Token::DoubleColon => true,
        Token::Word(word) => word.keyword == Keyword::AS || is_within_type,
        _ => false,
    }
}
