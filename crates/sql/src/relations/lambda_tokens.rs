//! Lambdas, which the parser does not know beside the arrow of JSON: they become calls of a
//! function that no text can name, and then what the planner takes.

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, Value,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use euphrates_flow::spec::lambda_argument::{ArgumentToken, function_of_argument};

use crate::functions::lambdas::takes_lambda;

/// The function that a lambda is written as. A name in a text has no blank without quotes, and
/// this one is compared with names without quotes alone.
const LAMBDA: &str = "lambda of";

/// Writes the lambdas of a text as calls: the body, and the parameters as text.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((names, body)) = parameters(tokens, at) {
            let end = end_of_argument(tokens, body);
            let span = tokens[at].span;
            let spanned = |token| TokenWithSpan { token, span };
            let names = names
                .into_iter()
                .flat_map(|name| [Token::Comma, Token::SingleQuotedString(name)].map(spanned));
            let closing: Vec<_> = names.chain([spanned(Token::RParen)]).collect();
            tokens.splice(end..end, closing);
            let word =
                Word { value: LAMBDA.into(), quote_style: None, keyword: Keyword::NoKeyword };
            let space = Token::Whitespace(Whitespace::Space);
            let opening = [space, Token::Word(word), Token::LParen].map(spanned);
            tokens.splice(at..body, opening);
        }
        at += 1;
    }
}

/// The lambda that a call stands for.
pub(super) fn unmarked(call: &Function) -> Option<Expr> {
    let [part] = &call.name.0[..] else { return None };
    let name = part.as_ident()?;
    if name.value != LAMBDA || name.quote_style.is_some() {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let mut args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let body = Box::new(args.next()??.clone());
    let params = args.map(|name| match name? {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => {
                Some(LambdaFunctionParameter { name: Ident::new(name), data_type: None })
            }
            _ => None,
        },
        _ => None,
    });
    let params = OneOrManyWithParens::Many(params.collect::<Option<Vec<_>>>()?);
    Some(Expr::Lambda(LambdaFunction { params, body, syntax: LambdaSyntax::LambdaKeyword }))
}

/// The parameters of a lambda that begins here, and where its body begins.
fn parameters(tokens: &[TokenWithSpan], at: usize) -> Option<(Vec<String>, usize)> {
    let mut behind = words(tokens, at);
    let (_, first) = behind.next()?;
    let is_keyword = match first {
        Token::Word(word) => word.keyword == Keyword::LAMBDA && word.quote_style.is_none(),
        _ => false,
    };
    let (mut names, end) = match first {
        Token::Word(_) if is_keyword => (vec![], Token::Colon),
        Token::LParen => (vec![], Token::RParen),
        Token::Word(word) => (vec![word.value.clone()], Token::Arrow),
        _ => return None,
    };
    let sign = match end {
        Token::Arrow => behind.next()?,
        _ => loop {
            let (_, Token::Word(word)) = behind.next()? else { return None };
            names.push(word.value.clone());
            match behind.next()? {
                (_, Token::Comma) => {}
                other => break other,
            }
        },
    };
    if *sign.1 != end {
        return None;
    }
    match end {
        Token::Colon => Some((names, sign.0 + 1)),
        _ if !is_argument(tokens, at) => None,
        Token::Arrow => Some((names, sign.0 + 1)),
        _ => {
            let (place, sign) = behind.next()?;
            (*sign == Token::Arrow).then_some((names, place + 1))
        }
    }
}

/// The tokens from here on that are not blank.
fn words(tokens: &[TokenWithSpan], at: usize) -> impl Iterator<Item = (usize, &Token)> {
    let tokens = tokens.iter().enumerate().skip(at).map(|(at, token)| (at, &token.token));
    tokens.filter(|(_, token)| !matches!(token, Token::Whitespace(_)))
}

/// Whether an argument begins here, not the first one, of a function that takes a lambda.
fn is_argument(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = tokens[..at].iter().rev().map(|token| &token.token);
    let before = before.filter(|token| !matches!(token, Token::Whitespace(_)));
    let function = function_of_argument(before.map(|token| match token {
        Token::LParen => ArgumentToken::OpeningParenthesis,
        Token::LBracket | Token::LBrace => ArgumentToken::OpeningBracket,
        Token::RParen | Token::RBracket | Token::RBrace => ArgumentToken::Closing,
        Token::Comma => ArgumentToken::Comma,
        Token::Word(name) => ArgumentToken::Word(&name.value),
        _ => ArgumentToken::Other,
    }));
    function.is_some_and(takes_lambda)
}

/// The place of the comma or the parenthesis behind the argument that goes on here.
fn end_of_argument(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace if depth > 0 => depth -= 1,
            Token::RParen | Token::RBracket | Token::RBrace => return at,
            Token::Comma if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}
