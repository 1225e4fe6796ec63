//! `pivot` and `unpivot`, behind a table and as statements of their own, as DuckDB has them: an
//! aggregate with a condition for each value, and lists of columns, of which each row has all.

pub(crate) mod described;

use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, NullInclusion, PivotValueSource, TableFactor, Value,
    Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion_sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion_sql::sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS};
use datafusion_sql::sqlparser::parser::{Parser, ParserError};
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use euphrates_flow::{Error, Result};

use super::limit_tokens::{closing, is_word, next};
use super::parsed_expression;
use super::texts::{derived, quoted};
use crate::functions::aggregates::is_computed;
use crate::functions::calls::is_null;

/// The subquery in the place of such a table.
pub(super) fn as_query(table: &TableFactor) -> Result<Option<TableFactor>> {
    match table {
        TableFactor::Pivot {
            table,
            aggregate_functions,
            value_column,
            value_source,
            default_on_null: None,
            alias,
        } => {
            let [column] = &value_column[..] else {
                let error = Error::usage("`pivot` takes the values of one column");
                return Err(error.remedy("put several into one: `a || '-' || b`"));
            };
            let values = match value_source {
                PivotValueSource::List(values) => values,
                _ => return Err(no_values()),
            };
            let text = pivot(&table.to_string(), column, values, aggregate_functions, None)?;
            derived(&text, alias.clone()).map(Some)
        }
        TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
            let keeps_nulls = matches!(null_inclusion, Some(NullInclusion::IncludeNulls));
            let value = column_name(value)
                .ok_or_else(|| Error::usage("the values of `unpivot` have one name"))?;
            let text = unpivot(&table.to_string(), columns, &name.value, &value, keeps_nulls)?;
            derived(&text, alias.clone()).map(Some)
        }
        TableFactor::Pivot { .. } => {
            Err(Error::usage("`default on null` is not supported in `pivot`")
                .remedy("write `coalesce(…)` over its columns"))
        }
        _ => Ok(None),
    }
}

fn no_values() -> Error {
    let error = Error::usage("`pivot` needs the values of its column");
    error.remedy("list them: `on city in ('Ur', 'Kish')`, or `for city in ('Ur', 'Kish')`")
}

/// The query of a pivot. Without `keys`, rows are grouped by the columns that it does not name.
fn pivot(
    table: &str,
    column: &Expr,
    values: &[ExprWithAlias],
    calls: &[ExprWithAlias],
    keys: Option<&[Expr]>,
) -> Result<String> {
    let is_one = calls.len() == 1 && calls[0].alias.is_none();
    let mut selected = vec![];
    for value in values {
        let of_value = match &value.alias {
            Some(alias) => alias.value.clone(),
            None => text_of(&value.expr),
        };
        for call in calls {
            let name = match &call.alias {
                _ if is_one => of_value.clone(),
                Some(alias) => format!("{of_value}_{}", alias.value),
                None => format!("{of_value}_{}", call.expr),
            };
            let condition = match is_null(&value.expr) {
                true => format!("{column} is null"),
                false => format!("{column} = {}", value.expr),
            };
            let value = filtered(&call.expr, &condition)?;
            selected.push(format!("{value} as {}", quoted(&name)));
        }
    }
    let selected = selected.join(", ");
    if let Some(keys) = keys {
        let keys: Vec<String> = keys.iter().map(Expr::to_string).collect();
        return Ok(match keys.is_empty() {
            true => format!("select {selected} from {table}"),
            false => {
                let keys = keys.join(", ");
                format!("select {keys}, {selected} from {table} group by {keys}")
            }
        });
    }
    let mut named = NamedColumns::default();
    let _ = column.visit(&mut named);
    calls.iter().for_each(|call| {
        let _ = call.expr.visit(&mut named);
    });
    let named = named.names.join(", ");
    Ok(format!("select * exclude ({named}), {selected} from {table} group by all"))
}

/// The expression with a condition for the rows of the aggregates in it.
fn filtered(of: &Expr, condition: &str) -> Result<Expr> {
    struct Filters(Expr);

    impl VisitorMut for Filters {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && is_computed(&call.name.to_string().to_lowercase())
            {
                let own = call.filter.take().map(|own| Expr::BinaryOp {
                    left: Box::new(Expr::Nested(own)),
                    op: BinaryOperator::And,
                    right: Box::new(self.0.clone()),
                });
                call.filter = Some(Box::new(own.unwrap_or_else(|| self.0.clone())));
            }
            ControlFlow::Continue(())
        }
    }

    let condition = parsed_expression(condition)
        .ok_or_else(|| Error::usage(format!("`{condition}` is no condition")))?;
    let mut of = of.clone();
    let _: ControlFlow<()> = VisitMut::visit(&mut of, &mut Filters(condition));
    Ok(of)
}

/// The query of an unpivot: a row for each of the columns.
fn unpivot(
    table: &str,
    columns: &[ExprWithAlias],
    name: &str,
    value: &str,
    keeps_nulls: bool,
) -> Result<String> {
    let (mut names, mut values, mut excluded) = (vec![], vec![], vec![]);
    for column in columns {
        let Some(own) = column_name(&column.expr) else {
            let error = Error::usage(format!("`unpivot` takes columns, not `{}`", column.expr));
            return Err(error.remedy("compute it in a subquery first"));
        };
        let shown = column.alias.as_ref().map_or(&own, |alias| &alias.value);
        names.push(format!("'{}'", shown.replace('\'', "''")));
        values.push(quoted(&own));
        excluded.push(quoted(&own));
    }
    let (names, values, excluded) = (names.join(", "), values.join(", "), excluded.join(", "));
    let (name, value) = (quoted(name), quoted(value));
    let rows = format!(
        "select * exclude ({excluded}), unnest([{names}]) as {name}, unnest([{values}]) as \
         {value} from {table}"
    );
    Ok(match keeps_nulls {
        true => rows,
        false => format!("select * from ({rows}) as unpivoted where {value} is not null"),
    })
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
        Expr::Nested(inner) => column_name(inner),
        Expr::Tuple(items) => match &items[..] {
            [one] => column_name(one),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a value's column.
fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            Value::Null => "NULL".into(),
            other => other.to_string(),
        },
        Expr::TypedString(typed) => text_of(&Expr::Value(typed.value.clone())),
        other => other.to_string(),
    }
}

/// The columns that expressions name, each once.
#[derive(Default)]
struct NamedColumns {
    names: Vec<String>,
}

impl Visitor for NamedColumns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = expr
            && let Some(name) = column_name(expr)
        {
            let name = quoted(&name);
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// A statement `pivot …` or `unpivot …` as the text of a query; nothing, if it is another one.
pub(crate) fn statement(
    tokens: &[TokenWithSpan],
    explained: impl Fn(&ParserError) -> Error,
) -> Result<Option<String>> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    let kind = match first.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => return Ok(None),
    };
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens.to_vec());
    let query = match kind {
        Keyword::PIVOT => {
            let query = parsed_pivot(&mut parser).map_err(|error| explained(&error))?;
            query.ok_or_else(no_values)?
        }
        Keyword::UNPIVOT => {
            let (table, columns, [name, value]) =
                parsed_unpivot(&mut parser).map_err(|error| explained(&error))?;
            unpivot(&table, &columns, &name, &value, false)?
        }
        _ => return Ok(None),
    };
    // What may stand behind any query.
    let rest = parser.peek_token_ref().span.start;
    let rest = tokens.iter().skip_while(|token| token.span.start != rest || rest.line == 0);
    let rest: String = rest.map(|token| token.token.to_string()).collect();
    Ok(Some(format!("select * from ({query}) as pivoted {rest}")))
}

/// Writes such statements in parentheses as queries: `from (pivot …)`, `with p as (unpivot …)`.
pub(crate) fn in_parentheses(
    tokens: &mut Vec<TokenWithSpan>,
    explained: &dyn Fn(&ParserError) -> Error,
) -> Result<()> {
    for at in (0..tokens.len()).rev() {
        let begins = || next(tokens, at).filter(|word| is_begin(tokens, *word)).is_some();
        if tokens[at].token != Token::LParen || !begins() {
            continue;
        }
        let Some(end) = closing(tokens, at) else { continue };
        let Some(query) = statement(&tokens[at + 1..end], explained)? else { continue };
        let span = tokens[at].span;
        let written = Tokenizer::new(&GenericDialect {}, &query).tokenize();
        let written = written.map_err(|error| explained(&error.into()))?;
        let written = written.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(at + 1..end, written);
    }
    Ok(())
}

/// Whether a statement begins with this word: it is no column of the name, before an operator.
fn is_begin(tokens: &[TokenWithSpan], word: usize) -> bool {
    let is_table = |at: usize| {
        matches!(tokens[at].token, Token::Word(_) | Token::LParen | Token::SingleQuotedString(_))
    };
    (is_word(&tokens[word], "pivot") || is_word(&tokens[word], "unpivot"))
        && next(tokens, word).is_some_and(is_table)
}

/// The query, or nothing, if the statement has no values.
fn parsed_pivot(parser: &mut Parser) -> Result<Option<String>, ParserError> {
    parser.expect_keyword_is(Keyword::PIVOT)?;
    let table = parser.parse_table_factor()?;
    parser.expect_keyword_is(Keyword::ON)?;
    // The values are no part of the column.
    let between = GenericDialect {}.prec_value(Precedence::Between);
    let column = parser.parse_subexpr(between)?;
    if !parser.parse_keyword(Keyword::IN) {
        return Ok(None);
    }
    parser.expect_token(&Token::LParen)?;
    let values = parser.parse_comma_separated(aliased)?;
    parser.expect_token(&Token::RParen)?;
    parser.expect_keyword_is(Keyword::USING)?;
    let calls = parser.parse_comma_separated(aliased)?;
    let keys = match parser.parse_keywords(&[Keyword::GROUP, Keyword::BY]) {
        true => Some(parser.parse_comma_separated(Parser::parse_expr)?),
        false => None,
    };
    let query = pivot(&table.to_string(), &column, &values, &calls, keys.as_deref());
    query.map(Some).map_err(|error| ParserError::ParserError(error.to_string()))
}

/// An expression, and its alias, with or without `as`.
fn aliased(parser: &mut Parser) -> Result<ExprWithAlias, ParserError> {
    let expr = parser.parse_expr()?;
    let is_explicit = parser.parse_keyword(Keyword::AS);
    let is_name = match &parser.peek_token_ref().token {
        Token::Word(word) if word.quote_style.is_none() => {
            let clauses = [Keyword::GROUP, Keyword::USING, Keyword::INTO, Keyword::IN];
            !clauses.contains(&word.keyword) && !RESERVED_FOR_COLUMN_ALIAS.contains(&word.keyword)
        }
        Token::Word(_) => true,
        _ => false,
    };
    let alias = (is_explicit || is_name).then(|| parser.parse_identifier()).transpose()?;
    Ok(ExprWithAlias { expr, alias })
}

/// The table, its columns, and the names of the new ones.
type ParsedUnpivot = (String, Vec<ExprWithAlias>, [String; 2]);

fn parsed_unpivot(parser: &mut Parser) -> Result<ParsedUnpivot, ParserError> {
    parser.expect_keyword_is(Keyword::UNPIVOT)?;
    let table = parser.parse_table_factor()?;
    parser.expect_keyword_is(Keyword::ON)?;
    let columns = parser.parse_comma_separated(aliased)?;
    let (mut name, mut value) = ("name".to_string(), "value".to_string());
    if parser.parse_keyword(Keyword::INTO) {
        parser.expect_keyword_is(Keyword::NAME)?;
        name = parser.parse_identifier()?.value;
        parser.expect_keyword_is(Keyword::VALUE)?;
        value = parser.parse_identifier()?.value;
    }
    Ok((table.to_string(), columns, [name, value]))
}
