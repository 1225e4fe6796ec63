//! `a ** b`, which the parser does not know: a call of `power`.

use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Rewrites the operators from left to right. One between other things than operands stays.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let mut from = 0;
    while let Some(at) = (from..tokens.len().saturating_sub(1))
        .find(|at| tokens[*at].token == Token::Mul && tokens[at + 1].token == Token::Mul)
    {
        from = at + 1;
        let (before, behind) = (start_of_left(tokens, at), end_of_right(tokens, at + 2));
        let (Some(start), Some(end)) = (before, behind) else { continue };
        let span = tokens[at].span;
        let written = |text: &str| {
            let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
            tokens.into_iter().map(move |token| TokenWithSpan { token, span }).collect::<Vec<_>>()
        };
        tokens.splice(end..end, written(")"));
        tokens.splice(at..at + 2, written(" as double),"));
        tokens.splice(start..start, written(" power(cast("));
        from = start;
    }
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// The place of the next token before one that is no space.
fn before(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (0..at).rev().find(|at| !is_space(&tokens[*at]))
}

fn behind(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|at| !is_space(&tokens[*at]))
}

/// Where the operand that ends before a place starts, with its sign.
fn start_of_left(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut start = start_of_primary(tokens, before(tokens, at)?)?;
    while let Some(colons) = before(tokens, start).filter(|at| is(tokens, *at, &Token::DoubleColon))
    {
        start = start_of_primary(tokens, before(tokens, colons)?)?;
    }
    let sign = before(tokens, start).filter(|at| is(tokens, *at, &Token::Minus));
    Some(match sign {
        Some(sign) if !before(tokens, sign).is_some_and(|at| ends_operand(tokens, at)) => sign,
        _ => start,
    })
}

fn is(tokens: &[TokenWithSpan], at: usize, token: &Token) -> bool {
    tokens.get(at).is_some_and(|known| known.token == *token)
}

/// The start of a number, a text, a name or a call, or what is in parentheses.
fn start_of_primary(tokens: &[TokenWithSpan], end: usize) -> Option<usize> {
    match &tokens[end].token {
        Token::RParen | Token::RBracket => {
            let open = opening(tokens, end)?;
            match before(tokens, open) {
                Some(named) if ends_operand(tokens, named) => start_of_primary(tokens, named),
                _ => Some(open),
            }
        }
        Token::Number(..) | Token::SingleQuotedString(_) => Some(end),
        Token::Word(_) if ends_operand(tokens, end) => {
            match before(tokens, end).filter(|at| is(tokens, *at, &Token::Period)) {
                Some(period) => start_of_primary(tokens, before(tokens, period)?),
                None => Some(end),
            }
        }
        _ => None,
    }
}

/// Whether an operand may end with a token.
pub(super) fn ends_operand(tokens: &[TokenWithSpan], at: usize) -> bool {
    use Keyword::{
        ALL, AND, AS, BETWEEN, BY, CASE, DISTINCT, ELSE, END, FROM, HAVING, ILIKE, IN, IS, LIKE,
        LIMIT, NOT, ON, OR, QUALIFY, SELECT, THEN, VALUES, WHEN, WHERE,
    };
    let reserved = [
        ALL, AND, AS, BETWEEN, BY, CASE, DISTINCT, ELSE, END, FROM, HAVING, ILIKE, IN, IS, LIKE,
        LIMIT, NOT, ON, OR, QUALIFY, SELECT, THEN, VALUES, WHEN, WHERE,
    ];
    match &tokens[at].token {
        Token::Word(word) => word.quote_style.is_some() || !reserved.contains(&word.keyword),
        Token::Number(..) | Token::SingleQuotedString(_) => true,
        Token::RParen | Token::RBracket => true,
        _ => false,
    }
}

/// The parenthesis or bracket that one closes.
fn opening(tokens: &[TokenWithSpan], close: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (0..=close).rev().find(|at| {
        match tokens[*at].token {
            Token::RParen | Token::RBracket => depth += 1,
            Token::LParen | Token::LBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Where the one ends that a parenthesis or bracket opens: behind the other.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let close = (open..tokens.len()).find(|at| {
        match tokens[*at].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    close.map(|close| close + 1)
}

/// Where the operand that starts behind a place ends.
fn end_of_right(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut at = behind(tokens, from)?;
    while is(tokens, at, &Token::Minus) || is(tokens, at, &Token::Plus) {
        at = behind(tokens, at + 1)?;
    }
    let mut end = match &tokens[at].token {
        Token::LParen => closing(tokens, at)?,
        Token::RParen | Token::RBracket => return None,
        _ if ends_operand(tokens, at) => at + 1,
        _ => return None,
    };
    while let Some(next) = behind(tokens, end) {
        end = match tokens[next].token {
            Token::LParen | Token::LBracket => closing(tokens, next)?,
            Token::Period | Token::DoubleColon => behind(tokens, next + 1)? + 1,
            _ => break,
        };
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_those_that_bind_more_than_products() {
        for (text, expected) in [
            ("2 ** 3", "power(cast(2 as double),3)"),
            ("a.b**-f(x, 1)[2] * 3", "power(cast(a.b as double),-f(x, 1)[2]) * 3"),
            ("2 * -x ** y", "2 * power(cast(-x as double),y)"),
            ("1 - x ** y", "1 - power(cast(x as double),y)"),
            ("a::double ** (b + 1)", "power(cast(a::double as double),(b + 1))"),
            ("2**3**4", "power(cast(power(cast(2 as double),3) as double),4)"),
            ("select **", "select **"),
        ] {
            let mut tokens =
                Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().unwrap();
            rewrite(&mut tokens);
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            let plain = |text: &str| text.replace(' ', "");
            assert_eq!(plain(&text), plain(expected));
        }
    }
}
