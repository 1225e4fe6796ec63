//! The columns that an expression may read, from its words alone: before its schema is known.

use euphrates_flow::module::ColumnNames;
use sqlparser::ast::{self, SelectItem, WildcardAdditionalOptions};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::parse::{parse_items, words};

/// The columns that an expression may read; `None` if that could be any (`*`), or if the text
/// cannot be tokenized.
///
/// Every word may be a column. It is one for certain if it is not a keyword, a function, a field of
/// a struct, or a name given by `as`.
pub(crate) fn column_names(text: &str) -> Option<ColumnNames> {
    let tokens = words(text)?;
    let mut names = ColumnNames::default();
    let parameters = lambda_parameters(&tokens);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        match token {
            Token::Mul if matches!(before, None | Some(Token::Comma | Token::Period)) => {
                return None;
            }
            Token::Word(word) => {
                let is_named = match before {
                    Some(Token::Word(before)) => before.keyword == Keyword::AS,
                    before => before == Some(&Token::Period),
                };
                let is_called = tokens.get(at + 1) == Some(&Token::LParen);
                let is_plain = word.keyword == Keyword::NoKeyword || word.quote_style.is_some();
                let is_parameter = parameters.contains(&word.value.as_str());
                match is_plain && !is_named && !is_called && !is_parameter {
                    true => names.add(&word.value),
                    false => names.add_possible(&word.value),
                }
            }
            _ => {}
        }
    }
    Some(names)
}

/// The words that are parameters of a lambda somewhere in the text: all between `lambda` and its
/// colon, or before an arrow.
fn lambda_parameters(tokens: &[Token]) -> Vec<&str> {
    let is_listed = |token: &&Token| matches!(token, Token::Word(_) | Token::Comma);
    fn word(token: &Token) -> Option<&str> {
        match token {
            Token::Word(word) => Some(word.value.as_str()),
            _ => None,
        }
    }
    let mut found = vec![];
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Word(word_here) if word_here.keyword == Keyword::LAMBDA => {
                found.extend(tokens[at + 1..].iter().take_while(is_listed).filter_map(word));
            }
            Token::Arrow => {
                let end = at - usize::from(at > 0 && tokens[at - 1] == Token::RParen);
                found.extend(tokens[..end].iter().rev().take_while(is_listed).filter_map(word));
            }
            _ => {}
        }
    }
    found
}

/// The columns that any of several expressions may read, each of which may be the name of a column
/// as a whole: `order id`.
pub(crate) fn column_names_of<'a>(texts: impl Iterator<Item = &'a str>) -> Option<ColumnNames> {
    let mut all = ColumnNames::default();
    for text in texts {
        all.merge(&column_names(text)?);
        all.add_possible(text);
    }
    Some(all)
}

/// The input column that a projection passes on under a name; `None` if it computes that one, or
/// has none. `*` has the columns that no item names.
pub(crate) fn copied_column(items: &[String], name: &str) -> Option<String> {
    let mut has_all = false;
    for item in items {
        for item in parse_items(item).ok()? {
            let column = match &item {
                SelectItem::Wildcard(options) => {
                    has_all |= *options == WildcardAdditionalOptions::default();
                    continue;
                }
                SelectItem::ExprWithAlias { expr, alias } if alias.value == name => expr,
                SelectItem::UnnamedExpr(expr) if expr.to_string() == name => expr,
                SelectItem::UnnamedExpr(expr @ ast::Expr::Identifier(column))
                    if column.value == name =>
                {
                    expr
                }
                _ => continue,
            };
            let ast::Expr::Identifier(column) = column else { return None };
            return Some(column.value.clone());
        }
    }
    has_all.then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    /// The columns of `a`, `b`, `year`, `Odd "name"` and `s` that are read; none for all.
    fn read(text: &str) -> Option<Vec<usize>> {
        let field = |name| Field::new(name, DataType::Int64, false);
        let schema = Schema::new(["a", "b", "year", "Odd \"name\"", "s"].map(field).to_vec());
        column_names(text)?.columns_of(&schema)
    }

    #[test]
    fn columns_are_found_without_a_schema() {
        for (text, expected) in [
            ("a + B > 3", Some(vec![0, 1])),
            ("extract(year from a)", Some(vec![0, 2])),
            ("abs(a) as b", Some(vec![0, 1])),
            ("s.a.b = 1", Some(vec![0, 1, 4])),
            ("\"Odd \"\"name\"\"\" = 'a'", Some(vec![3])),
            ("a * b", Some(vec![0, 1])),
            ("list_filter(s, lambda x, y: x > a and y > 1)", Some(vec![0, 4])),
            ("list_reduce(s, (x, y) -> x + b)", Some(vec![1, 4])),
            ("cast(a as bigint)", Some(vec![0])),
            ("case when a > 1 then b end", Some(vec![0, 1])),
            ("true", Some(vec![0])),
            ("*", None),
            ("* exclude (a)", None),
            ("a, *", None),
            ("c + a", None),
            ("'open", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
