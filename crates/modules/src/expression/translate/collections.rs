//! Lists, structs and maps: how they are written, and how their parts are reached.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use euphrates_flow::Result;
use sqlparser::ast::{
    self, AccessExpr, Expr as Ast, FunctionArguments, Ident, ObjectNamePart, Subscript, Value,
};

use super::Translator;
use crate::expression::common_type::plain;
use crate::expression::parse::unsupported;
use crate::expression::typed::Typed;

impl Translator<'_> {
    /// `[1, 2]`, `{'a': 1}`, `(1, 2)` or `map {'a': 1}`.
    pub(super) fn collection(&self, ast: &Ast, depth: usize) -> Result<Typed> {
        match ast {
            Ast::Array(list) => self.list(&list.elem.iter().collect::<Vec<_>>(), depth),
            Ast::Dictionary(fields) => {
                let mut args = vec![];
                for field in fields {
                    args.push(text(&field.key.value));
                    args.push(self.expr(&field.value, depth)?);
                }
                self.call("named_struct", args)
            }
            Ast::Tuple(items) => self.row(&items.iter().collect::<Vec<_>>(), depth),
            Ast::Map(map) => {
                let keys: Vec<&Ast> = map.entries.iter().map(|entry| &*entry.key).collect();
                let values: Vec<&Ast> = map.entries.iter().map(|entry| &*entry.value).collect();
                let (keys, values) = (self.list(&keys, depth)?, self.list(&values, depth)?);
                self.call("map", vec![keys, values])
            }
            other => Err(unsupported(format!("`{other}`"))),
        }
    }

    /// The column that a word like `user` or `current_date` names, which the parser reads as a
    /// function.
    pub(super) fn column_of_word<'a>(&self, function: &'a ast::Function) -> Option<&'a Ident> {
        let [ObjectNamePart::Identifier(name)] = &function.name.0[..] else { return None };
        let is_word = matches!(function.args, FunctionArguments::None);
        let is_known = |name: &str| {
            self.columns.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name))
        };
        (is_word && is_known(&name.value)).then_some(name)
    }

    /// `row(a, b)`, or `(a, b)`: a struct of fields that are numbered.
    pub(super) fn row(&self, items: &[&Ast], depth: usize) -> Result<Typed> {
        let mut args = vec![];
        for (at, item) in items.iter().enumerate() {
            args.push(text(&format!("element{}", at + 1)));
            args.push(self.expr(item, depth)?);
        }
        self.call("named_struct", args)
    }

    fn list(&self, items: &[&Ast], depth: usize) -> Result<Typed> {
        let items = items.iter().map(|item| self.expr(item, depth));
        self.call("make_array", items.collect::<Result<_>>()?)
    }

    /// The value of a key of a map, or null.
    pub(super) fn value_of_key(&self, map: Typed, key: Typed) -> Result<Typed> {
        let found = self.call("map_extract", vec![map, key])?;
        let first = Typed::literal(ScalarValue::from(1_i64), "1");
        self.call("array_element", vec![found, first])
    }

    /// A part: `.a`, `['a']`, `[1]`, `[1:2]`.
    pub(super) fn access(&self, from: Typed, access: &AccessExpr, depth: usize) -> Result<Typed> {
        let subscript = match access {
            AccessExpr::Dot(Ast::Identifier(name)) => return self.field(from, &name.value),
            AccessExpr::Dot(other) => return Err(unsupported(format!("`.{other}`"))),
            AccessExpr::Subscript(subscript) => subscript,
        };
        match subscript {
            Subscript::Index { index } => match (plain(&from.data_type), string_of(index)) {
                (DataType::Map(..), _) => self.value_of_key(from, self.expr(index, depth)?),
                (_, Some(name)) => self.field(from, name),
                _ => self.call("array_element", vec![from, self.expr(index, depth)?]),
            },
            Subscript::Slice { lower_bound, upper_bound, stride } => {
                let bound = |bound: &Option<Ast>, missing: i64| match bound {
                    Some(bound) => self.expr(bound, depth),
                    None => Ok(Typed::literal(ScalarValue::from(missing), missing.to_string())),
                };
                let mut args = vec![from, bound(lower_bound, 1)?, bound(upper_bound, -1)?];
                if stride.is_some() {
                    args.push(bound(stride, 1)?);
                }
                self.call("array_slice", args)
            }
        }
    }
}

fn text(value: &str) -> Typed {
    Typed::literal(ScalarValue::from(value), format!("'{value}'"))
}

/// The text that an index is.
fn string_of(index: &Ast) -> Option<&str> {
    match index {
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}
