//! Parses a statement: a query, and where its rows go.

use datafusion_sql::resolve::resolve_table_references;
use datafusion_sql::sqlparser::ast::{self, CopySource, CopyTarget, Query};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use euphrates_flow::{Error, Result};
use serde_json::{Map, Value, json};

use crate::copy_options::{self, StatementSink};
use crate::errors::failed;
use crate::relations::{
    self, asof_tokens, comprehension_tokens, exclusion_tokens, from_tokens, glob_tokens,
    lambda_tokens, limit_tokens, membership_tokens, number_tokens, pivots, plain_tokens,
    power_tokens, sampled, star_tokens, struct_tokens,
};

/// The most operators of a query: in a chain, each is a level of a tree.
const OPERATORS_MAX: usize = 2000;

/// Levels of parentheses and operators.
const DEPTH_MAX: usize = 2000;

/// A query, and the sink of its rows.
pub(crate) struct Statement {
    pub(crate) query: Box<Query>,
    pub(crate) sink: Option<StatementSink>,
}

/// The words and signs of a text.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| located(text, &error.message, error.location))?;
    match tokens.iter().filter(|token| may_nest(&token.token)).count() {
        0..=OPERATORS_MAX => Ok(tokens),
        count => {
            let error = Error::usage(format!("the query has {count} operators"));
            Err(error.remedy("write `in (…)` for `or`, or use several queries"))
        }
    }
}

/// Whether a token may be one level of a tree.
fn may_nest(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(word.keyword, Keyword::AND | Keyword::OR | Keyword::NOT),
        Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod => true,
        Token::StringConcat => true,
        _ => false,
    }
}

impl Statement {
    /// Parses the tokens of a text.
    pub(crate) fn parse(text: &str, mut tokens: Vec<TokenWithSpan>) -> Result<Statement> {
        let options = copy_options::take_options(&mut tokens)?;
        plain_tokens::rewrite(&mut tokens);
        sampled::rewrite(&mut tokens)?;
        limit_tokens::mark(&mut tokens);
        pivots::described::mark(&mut tokens);
        from_tokens::rewrite(&mut tokens);
        number_tokens::rewrite(&mut tokens);
        power_tokens::rewrite(&mut tokens);
        star_tokens::rewrite(&mut tokens)?;
        glob_tokens::rewrite(&mut tokens);
        comprehension_tokens::rewrite(&mut tokens);
        membership_tokens::mark(&mut tokens);
        asof_tokens::mark(&mut tokens)?;
        lambda_tokens::mark(&mut tokens);
        exclusion_tokens::mark(&mut tokens);
        struct_tokens::mark(&mut tokens);
        pivots::in_parentheses(&mut tokens, &|error| explained(text, error))?;
        if let Some(query) = pivots::statement(&tokens, |error| explained(text, error))? {
            let mut query = Box::new(relations::parsed_query(&query)?);
            relations::rewrite(&mut query)?;
            return Ok(Statement { query, sink: None });
        }
        let statements = Parser::new(&GenericDialect {})
            .with_recursion_limit(DEPTH_MAX)
            .with_tokens_with_locations(tokens)
            .parse_statements()
            .map_err(|error| explained(text, &error))?;
        let count = statements.len();
        if count == 0 {
            return Err(empty());
        }
        let Ok([statement]) = <[_; 1]>::try_from(statements) else {
            let error = Error::usage(format!("the text has {count} statements"));
            return Err(error.remedy("give one query"));
        };
        let mut statement = Statement::of(statement, options)?;
        relations::rewrite(&mut statement.query)?;
        Ok(statement)
    }

    /// A statement of the parser; `options` are those of a `copy`.
    fn of(statement: ast::Statement, options: Map<String, Value>) -> Result<Statement> {
        match statement {
            ast::Statement::Query(query) => Ok(Statement { query, sink: None }),
            ast::Statement::CreateTable(ast::CreateTable {
                query: Some(query),
                name,
                or_replace,
                ..
            }) => {
                let names = name.0.iter().map(|part| part.as_ident().map(|it| it.value.as_str()));
                let name = names.map(|name| name.unwrap_or_default()).collect::<Vec<_>>().join("/");
                let config = json!({"collection": name, "overwrite": or_replace});
                Ok(Statement { query, sink: Some(StatementSink { module: "write", config }) })
            }
            ast::Statement::Copy {
                source: CopySource::Query(query),
                to: true,
                target: CopyTarget::File { filename },
                ..
            } => {
                let sink = copy_options::sink(filename, options)?;
                Ok(Statement { query, sink: Some(sink) })
            }
            ast::Statement::Explain { .. } => Err(unsupported("explain")
                .remedy("write `explain` or `explain analyze` before a query, and no options")),
            other => {
                let text = other.to_string();
                let words = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
                Err(unsupported(&words.to_lowercase()).remedy(instead_of(&other)))
            }
        }
    }

    /// The names of tables that the query reads: names given by the caller, paths, collections.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        let statement = ast::Statement::Query(self.query.clone());
        let statement = datafusion_sql::parser::Statement::Statement(Box::new(statement));
        let (tables, _) = resolve_table_references(&statement, false).map_err(failed)?;
        // A path like `a.parquet` comes out as a schema and a table.
        Ok(tables.iter().map(catalog_name).collect())
    }
}

fn empty() -> Error {
    let error = Error::usage("there is no statement: the text is empty, or a comment");
    error.remedy("write a query: select * from 'sales.parquet'")
}

/// The whole name of a table, as it is written in the query.
pub(crate) fn catalog_name(table: &datafusion_common::TableReference) -> String {
    let parts = [table.catalog(), table.schema(), Some(table.table())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

/// What a statement of a database is here.
fn instead_of(statement: &ast::Statement) -> &'static str {
    use ast::Statement as S;
    match statement {
        S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_) => {
            "tables are written whole: `create or replace table t as select …`, or `copy (…) to \
             'folder' (format parquet, append)`"
        }
        S::Drop { .. } => "remove a collection by `euphrates rm NAME`",
        S::CreateView(_) => "write `with v as (…) select …`, or `create table v as …`",
        S::ShowTables { .. } => {
            "`euphrates ls` lists collections, and `.tables` in the shell its tables"
        }
        S::Set(_) | S::Pragma { .. } => {
            "options are those of the run: `memory=\"4GiB\"`, `cores=2`, `scratch=\"/disk\"`"
        }
        _ => "write a query, `create table … as`, `copy (…) to`, `explain` or `describe`",
    }
}

pub(crate) fn unsupported(what: &str) -> Error {
    Error::usage(format!("`{what}` is not supported in a query"))
}

/// The parser's error, with a caret under its place in the text.
fn explained(text: &str, error: &ParserError) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return Error::usage("the query is nested too deeply").remedy("use several queries");
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (message, place) = message.rsplit_once(" at Line: ").unwrap_or((message, ""));
    let message = message.replace("Expected: ", "expected ").replace("EOF", "its end");
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let place = place.split_once(", Column: ");
    match place.and_then(|(line, column)| number(line).zip(number(column))) {
        Some((line, column)) => located(text, &message, Location::new(line, column)),
        None => Error::usage(format!("the query cannot be parsed: {message}")),
    }
}

fn located(text: &str, message: &str, at: Location) -> Error {
    let line = text.lines().nth((at.line as usize).saturating_sub(1)).unwrap_or("");
    let before = (at.column as usize).saturating_sub(1);
    let caret = format!("{}^", " ".repeat(before));
    Error::usage(format!("the query cannot be parsed: {message}\n    {line}\n    {caret}"))
}
