//! Parts of a query that are written as text.

use datafusion_sql::sqlparser::ast::{Expr, Query, TableAlias, TableFactor};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::parser::Parser;
use datafusion_sql::sqlparser::tokenizer::Token;
use euphrates_flow::{Error, Result};

/// The query of a text that was written here.
pub(crate) fn parsed_query(text: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(text);
    let parsed = parsed.and_then(|mut parser| {
        let query = parser.parse_query()?;
        while parser.consume_token(&Token::SemiColon) {}
        parser.expect_token(&Token::EOF)?;
        Ok(query)
    });
    parsed
        .map(|query| *query)
        .map_err(|error| Error::usage(format!("the query cannot be parsed: {error}")))
}

/// The expression of a text that was written here.
pub(crate) fn parsed_expression(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}

/// A subquery in the place of a table.
pub(crate) fn derived(text: &str, alias: Option<TableAlias>) -> Result<TableFactor> {
    Ok(TableFactor::Derived {
        lateral: false,
        subquery: Box::new(parsed_query(text)?),
        alias,
        sample: None,
    })
}

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
