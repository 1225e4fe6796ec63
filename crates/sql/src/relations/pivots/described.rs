//! `(describe t)` and `(summarize t)` as tables: a query of rows that are known when the columns of
//! `t` are.

use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion_sql::sqlparser::ast::{
    Expr, Query, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut, With,
};
use datafusion_sql::sqlparser::dialect::GenericDialect;
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use euphrates_flow::{Error, Result};

use crate::relations::limit_tokens::{closing, is_word, next};
use crate::relations::parsed_query;

/// The names of the columns that stand for the rows until these are known.
const COLUMNS: &str = "described columns";
const FACTS: &str = "described facts";

/// Marks such tables: `(describe t)` is `(select "described columns" from t)`.
pub(crate) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        let Some(word) = next(tokens, at).filter(|_| tokens[at].token == Token::LParen) else {
            continue;
        };
        let mark = match &tokens[word] {
            token if is_word(token, "describe") => COLUMNS,
            token if is_word(token, "summarize") => FACTS,
            _ => continue,
        };
        let Some(first) = next(tokens, word).filter(|first| is_table(&tokens[*first].token)) else {
            continue;
        };
        let Some(end) = closing(tokens, at) else { continue };
        let queries = ["select", "from", "with", "values", "pivot", "unpivot"];
        let is_query = queries.iter().any(|query| is_word(&tokens[first], query));
        let span = tokens[at].span;
        if is_query {
            tokens.insert(end, TokenWithSpan { token: Token::RParen, span });
        }
        let text = format!("select \"{mark}\" from {}", if is_query { "(" } else { "" });
        let Ok(written) = Tokenizer::new(&GenericDialect {}, &text).tokenize() else { continue };
        let written = written.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(at + 1..=word, written);
    }
}

/// Whether a table or a query begins so: `describe` may be a column, before an operator.
fn is_table(token: &Token) -> bool {
    let operators = [Keyword::IS, Keyword::AND, Keyword::OR, Keyword::IN, Keyword::NOT];
    let operators = operators.into_iter().chain([Keyword::LIKE, Keyword::ILIKE, Keyword::BETWEEN]);
    match token {
        Token::Word(word) => !operators.into_iter().any(|operator| word.keyword == operator),
        Token::SingleQuotedString(_) | Token::LParen => true,
        _ => false,
    }
}

/// Writes the rows of marked tables. `schema_of` has the columns of a query, `facts_of` the query
/// of the facts of a table `self`.
pub(crate) fn replace(
    query: &mut Query,
    schema_of: &dyn Fn(Box<Query>) -> Result<Schema>,
    facts_of: &dyn Fn(&Schema) -> String,
) -> Result<()> {
    let with = query.with.clone();
    match query.visit(&mut DescribedTables { with, schema_of, facts_of }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct DescribedTables<'a> {
    /// The common tables of the query.
    with: Option<With>,
    schema_of: &'a dyn Fn(Box<Query>) -> Result<Schema>,
    facts_of: &'a dyn Fn(&Schema) -> String,
}

impl DescribedTables<'_> {
    fn rows(&self, marked: &Query, mark: &str) -> Result<Query> {
        let mut rows = marked.clone();
        let all = parsed_query("select *")?;
        if let (SetExpr::Select(select), SetExpr::Select(all)) =
            (rows.body.as_mut(), all.body.as_ref())
        {
            select.projection.clone_from(&all.projection);
        }
        let seen = Query { with: self.with.clone(), ..rows.clone() };
        let schema = (self.schema_of)(Box::new(seen))?;
        if mark == FACTS {
            let facts = (self.facts_of)(&schema);
            return parsed_query(&facts.replace("from self)", &format!("from ({rows}) as self)")));
        }
        let text = |text: String| format!("'{}'", text.replace('\'', "''"));
        let described = schema.fields().iter().map(|column| {
            let (name, of) = (column.name().clone(), column.data_type().to_string());
            format!("({}, {})", text(name), text(of))
        });
        let described = described.collect::<Vec<_>>().join(", ");
        parsed_query(&format!(
            "select * from (values {described}) as described (column_name, column_type)"
        ))
    }
}

impl VisitorMut for DescribedTables<'_> {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Error> {
        let TableFactor::Derived { subquery, .. } = table else {
            return ControlFlow::Continue(());
        };
        let Some(mark) = mark_of(subquery) else { return ControlFlow::Continue(()) };
        match self.rows(subquery, mark) {
            Ok(rows) => **subquery = rows,
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn mark_of(query: &Query) -> Option<&'static str> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(Expr::Identifier(name))] = &select.projection[..] else {
        return None;
    };
    [COLUMNS, FACTS].into_iter().find(|mark| *mark == name.value)
}
