//! Numbers that the tokenizer takes for something else: `0x1F` for bytes, and `1_000` for a number
//! and a name.

use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes such numbers in digits.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    for token in tokens.iter_mut() {
        // `x'1F'` are bytes; it has a quote more at each end, and one character less before.
        let length = token.span.end.column.saturating_sub(token.span.start.column);
        if let Token::HexStringLiteral(digits) = &token.token
            && length == digits.len() as u64 + 2
            && let Ok(number) = u128::from_str_radix(digits, 16)
        {
            token.token = Token::Number(number.to_string(), false);
        }
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        let more = match (&tokens[at].token, &tokens[at + 1].token) {
            (Token::Number(digits, false), Token::Word(word))
                if word.quote_style.is_none() && is_more(&word.value) =>
            {
                Some(format!("{digits}{}", word.value.replace('_', "")))
            }
            _ => None,
        };
        if let Some(digits) = more {
            tokens[at].token = Token::Number(digits, false);
            tokens.remove(at + 1);
        }
        at += 1;
    }
}

/// Whether a word behind a number is its further digits: `_000_000`.
fn is_more(word: &str) -> bool {
    let mut groups = word.split('_');
    let is_digits =
        |group: &str| !group.is_empty() && group.bytes().all(|digit| digit.is_ascii_digit());
    groups.next() == Some("") && word.len() > 1 && groups.all(is_digits)
}
