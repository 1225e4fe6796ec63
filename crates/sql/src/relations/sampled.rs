//! Samples, as DuckDB writes them: `tablesample reservoir(10 rows)`, `using sample 10%`. The sample
//! of a table is a subquery whose limit is a call that marks it, until it is lowered.

use datafusion_expr::Expr as PlannedExpr;
use datafusion_sql::sqlparser::ast::{
    Ident, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleUnit,
};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use euphrates_flow::{Error, Result};

use super::limit_tokens::{closing, is_word, next};
use super::texts::derived;

/// The function that marks a limit as a sample: of its unit, `rows` or `percent`, the number of
/// these, and the seed.
pub(crate) const SAMPLE: &str = "_sample";

/// Whether a limit is a sample.
pub(crate) fn is_sample(limit: &PlannedExpr) -> bool {
    matches!(limit, PlannedExpr::ScalarFunction(call) if call.func.name() == SAMPLE)
}

/// Writes the samples of a text as the parser knows them: `tablesample (10 rows) repeatable (1)`
/// behind a table.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut at = 0;
    while at < tokens.len() {
        let sample = next(tokens, at).filter(|behind| is_word(&tokens[*behind], "sample"));
        if is_word(&tokens[at], "tablesample") {
            let (written, last) = written(tokens, at).ok_or_else(unknown)?;
            let count = written.len();
            tokens.splice(at..=last, written);
            at += count;
        } else if is_word(&tokens[at], "using")
            && let Some(sample) = sample
        {
            let (written, last) = written(tokens, sample).ok_or_else(unknown)?;
            let place = end_of_from(tokens, at)?;
            tokens.drain(at..=last);
            at += written.len();
            tokens.splice(place..place, written);
        } else {
            at += 1;
        }
    }
    Ok(())
}

fn unknown() -> Error {
    let error = Error::usage("a sample does not say how many rows");
    error.remedy("write `tablesample (10 percent)` or `tablesample reservoir(10 rows)`")
}

/// A sample in the parser's form, and its last token; `word` is the one before it.
fn written(tokens: &[TokenWithSpan], word: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let methods = ["reservoir", "bernoulli", "system"];
    let is_method = |at: usize| methods.iter().any(|method| is_word(&tokens[at], method));
    let mut first = next(tokens, word)?;
    if is_method(first) {
        first = next(tokens, first)?;
    }
    let is_nested = tokens[first].token == Token::LParen;
    let count = if is_nested { next(tokens, first)? } else { first };
    let Token::Number(number, _) = &tokens[count].token else { return None };
    let unit = next(tokens, count);
    let is_percent = unit
        .is_some_and(|unit| tokens[unit].token == Token::Mod || is_word(&tokens[unit], "percent"));
    let is_rows = unit.is_some_and(|unit| is_word(&tokens[unit], "rows"));
    let mut last = unit.filter(|_| is_percent || is_rows).unwrap_or(count);
    let mut seed = None;
    if is_nested {
        last = next(tokens, last).filter(|end| tokens[*end].token == Token::RParen)?;
    } else if let Some(open) = next(tokens, last).filter(|at| tokens[*at].token == Token::LParen)
        && next(tokens, open).is_some_and(is_method)
    {
        // `10% (bernoulli, 42)`
        last = closing(tokens, open)?;
        seed = number_in(&tokens[open..last]);
    }
    if let Some(word) = next(tokens, last).filter(|at| is_word(&tokens[*at], "repeatable")) {
        let open = next(tokens, word)?;
        last = closing(tokens, open)?;
        seed = number_in(&tokens[open..last]);
    }
    let word = |value: &str, keyword| {
        Token::Word(Word { value: value.into(), quote_style: None, keyword })
    };
    let unit = if is_percent { ("percent", Keyword::PERCENT) } else { ("rows", Keyword::ROWS) };
    let space = Token::Whitespace(Whitespace::Space);
    let written = [
        space.clone(),
        word("tablesample", Keyword::TABLESAMPLE),
        Token::LParen,
        Token::Number(number.clone(), false),
        space.clone(),
        word(unit.0, unit.1),
        Token::RParen,
        word("repeatable", Keyword::REPEATABLE),
        Token::LParen,
        Token::Number(seed.unwrap_or_else(|| "0".into()), false),
        Token::RParen,
        space,
    ];
    let span = tokens[count].span;
    Some((written.map(|token| TokenWithSpan { token, span }).into(), last))
}

fn number_in(tokens: &[TokenWithSpan]) -> Option<String> {
    tokens.iter().find_map(|token| match &token.token {
        Token::Number(digits, _) => Some(digits.clone()),
        _ => None,
    })
}

/// The end of the one table that a query reads, before its other clauses; `using` is behind these.
fn end_of_from(tokens: &[TokenWithSpan], using: usize) -> Result<usize> {
    let mut depth = 0_usize;
    let (mut end, mut is_one) = (using, true);
    for at in (0..using).rev() {
        let is_any = |words: &[&str]| words.iter().any(|word| is_word(&tokens[at], word));
        let is_distinct = || {
            let before = tokens[..at].iter().rev();
            let mut before = before.filter(|it| !matches!(it.token, Token::Whitespace(_)));
            before.next().is_some_and(|before| is_word(before, "distinct"))
        };
        match &tokens[at].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            _ if depth > 0 => {}
            _ if is_any(&["from"]) && !is_distinct() => {
                let error = Error::usage("`using sample` follows several tables");
                let remedy = "sample one of them, `from a tablesample (10 percent) join b …`, or \
                              a subquery, `from (select …) tablesample (10 percent)`";
                return if is_one { Ok(end) } else { Err(error.remedy(remedy)) };
            }
            _ if is_any(&["where", "group", "having", "window", "qualify"]) => {
                (end, is_one) = (at, true);
            }
            Token::Comma => is_one = false,
            _ if is_any(&["join"]) => is_one = false,
            _ => {}
        }
    }
    Err(unknown())
}

/// Takes the sample of a table away.
pub(super) fn take(table: &mut TableFactor) -> Option<TableSample> {
    let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = table else {
        return None;
    };
    match sample.take()? {
        TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample) => {
            Some(*sample)
        }
    }
}

/// The subquery in the place of a table of which there is a sample.
pub(super) fn as_query(table: &TableFactor, sample: &TableSample) -> Result<TableFactor> {
    let quantity = sample.quantity.as_ref().ok_or_else(unknown)?;
    let unit = match quantity.unit {
        Some(TableSampleUnit::Percent) => "percent",
        Some(TableSampleUnit::Rows) | None => "rows",
    };
    let seed = sample.seed.as_ref().map_or_else(|| "0".into(), |seed| seed.value.to_string());
    let name = match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    };
    let name = name.map(|name| Ident::with_quote('"', name.value));
    let alias = name.map(|name| TableAlias { explicit: true, name, columns: vec![], at: None });
    let count = &quantity.value;
    derived(&format!("select * from {table} limit {SAMPLE}('{unit}', {count}, {seed})"), alias)
}
