//! `[f(x) for x in list if condition]`, which the parser does not know: it is written as calls of
//! `list_transform` and `list_filter`.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// Writes all comprehensions of a text as calls, inner ones first.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        if tokens[at].token == Token::LBracket
            && let Some(parts) = parts(tokens, at)
        {
            let (span, end) = (tokens[at].span, parts.end);
            let called = parts.called();
            let called = called.into_iter().map(|token| TokenWithSpan { token, span });
            tokens.splice(at..=end, called.collect::<Vec<_>>());
        }
    }
}

/// The parts of a comprehension, as tokens.
struct ComprehensionParts {
    value: Vec<Token>,
    names: Vec<Token>,
    list: Vec<Token>,
    condition: Option<Vec<Token>>,
    /// The place of the closing bracket.
    end: usize,
}

impl ComprehensionParts {
    fn called(self) -> Vec<Token> {
        let list = match self.condition {
            Some(condition) => call("list_filter", self.list, &self.names, condition),
            None => self.list,
        };
        call("list_transform", list, &self.names, self.value)
    }
}

/// `function(list, lambda names: body)`.
fn call(function: &str, list: Vec<Token>, names: &[Token], body: Vec<Token>) -> Vec<Token> {
    let space = || Token::Whitespace(Whitespace::Space);
    let mut tokens = vec![word(function, Keyword::NoKeyword), Token::LParen];
    tokens.extend(list);
    tokens.extend([Token::Comma, space(), word("lambda", Keyword::LAMBDA), space()]);
    tokens.extend(names.iter().cloned());
    tokens.extend([Token::Colon, space()]);
    tokens.extend(body);
    tokens.push(Token::RParen);
    tokens
}

fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

/// The comprehension that a bracket opens, if it is one.
fn parts(tokens: &[TokenWithSpan], opening: usize) -> Option<ComprehensionParts> {
    let mut depth = 0_usize;
    let (mut begins, mut source, mut condition) = (None, None, None);
    let mut end = None;
    for (at, token) in tokens.iter().enumerate().skip(opening + 1) {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RBracket if depth == 0 => {
                end = Some(at);
                break;
            }
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            token if begins.is_none() && is(token, Keyword::FOR) => begins = Some(at),
            token if begins.is_some() && source.is_none() && is(token, Keyword::IN) => {
                source = Some(at);
            }
            token if source.is_some() && condition.is_none() && is(token, Keyword::IF) => {
                condition = Some(at);
            }
            _ => {}
        }
    }
    let (begins, source, end) = (begins?, source?, end?);
    let of = |from: usize, to: usize| -> Vec<Token> {
        tokens[from..to].iter().map(|token| token.token.clone()).collect()
    };
    let names = of(begins + 1, source);
    let is_name =
        |token: &Token| matches!(token, Token::Word(_) | Token::Comma | Token::Whitespace(_));
    names.iter().all(is_name).then(|| ComprehensionParts {
        value: of(opening + 1, begins),
        names,
        list: of(source + 1, condition.unwrap_or(end)),
        condition: condition.map(|at| of(at + 1, end)),
        end,
    })
}

fn is(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}
