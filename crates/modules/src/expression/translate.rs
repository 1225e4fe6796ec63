//! Translates the syntax tree to a typed expression.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion_expr::type_coercion::binary::like_coercion;
use datafusion_expr::{Expr, Like, Operator};
use euphrates_flow::error::{did_you_mean, remedy_of_unsplit};
use euphrates_flow::{Error, Kind, Result};
use sqlparser::ast::{self, BinaryOperator, Expr as Ast, Ident, Spanned, UnaryOperator};

mod cases;
mod collections;
mod lambdas;
mod regex_check;
mod spans;
mod synonyms;
mod temporal;
mod typed_calls;
mod zones;

use super::compile::translate_error;
use super::operators::{balanced_chain, binary, negate};
use super::parse::{located, unsupported};
use super::typed::Typed;
use super::types::{Family, in_words, type_of};
use super::{calls, syntax};

/// Maximum depth of a tree, since its evaluation is recursive.
const DEPTH_MAX: usize = 100;

/// Maximum column names listed in an error.
const SHOWN_COLUMNS: usize = 40;

/// Translates expressions over the columns of a schema.
pub(crate) struct Translator<'a> {
    text: &'a str,
    columns: &'a Schema,
    pub(super) schema: DFSchemaRef,
}

/// The position of a named column.
pub(crate) fn column_named(columns: &Schema, name: &Ident, text: &str) -> Result<usize> {
    let wrong = |message: String| located(text, message, name.span.start);
    let fields = || columns.fields().iter().map(|field| field.name().as_str());
    let matching = |same: &dyn Fn(&str) -> bool| -> Vec<usize> {
        fields().enumerate().filter(|(_, field)| same(field)).map(|(at, _)| at).collect()
    };
    let mut found = matching(&|field| field == name.value);
    if found.is_empty() {
        let lower = name.value.to_lowercase();
        found = matching(&|field| field.to_lowercase() == lower);
    }
    match found.as_slice() {
        [one] => Ok(*one),
        [] => {
            let error = wrong(format!("no column named `{}`", name.value));
            Err(match did_you_mean(&name.value, fields()) {
                Some(near) => error.remedy(format!("did you mean `{near}`?")),
                None if name.quote_style == Some('"') => {
                    error.remedy("text stands in 'single quotes'")
                }
                None if columns.fields().len() == 1
                    && remedy_of_unsplit(columns.field(0).name()).is_some() =>
                {
                    let remedy = remedy_of_unsplit(columns.field(0).name());
                    error.remedy(remedy.unwrap_or_default())
                }
                None => {
                    let mut known: Vec<_> = fields().take(SHOWN_COLUMNS).collect();
                    known.extend((columns.fields().len() > SHOWN_COLUMNS).then_some("…"));
                    error.remedy(format!("columns: {}", known.join(", ")))
                }
            })
        }
        several => {
            let names: Vec<_> = several.iter().map(|at| columns.field(*at).name()).collect();
            let message = format!("`{}` could be any of {names:?}", name.value);
            Err(wrong(message).remedy("write the column as it is written in the schema"))
        }
    }
}

impl<'a> Translator<'a> {
    /// A translator for parts of `text` over these columns.
    pub(crate) fn new(text: &'a str, columns: &'a Schema) -> Result<Translator<'a>> {
        // A duplicate name is ambiguous anyway; keeping the first keeps positions simple.
        let mut seen = std::collections::HashSet::new();
        let unique = columns.fields().iter().filter(|field| seen.insert(field.name().clone()));
        let schema = DFSchema::from_unqualified_fields(
            unique.cloned().collect(),
            std::collections::HashMap::new(),
        );
        let schema = schema.map_err(|error| translate_error(&error, Kind::Usage))?;
        Ok(Translator { text, columns, schema: Arc::new(schema) })
    }

    /// Translates a whole expression.
    pub(crate) fn translate(&self, ast: &Ast) -> Result<Typed> {
        self.expr(ast, 0)
    }

    /// Translates a part of the expression.
    pub(super) fn expr(&self, ast: &Ast, depth: usize) -> Result<Typed> {
        if depth > DEPTH_MAX {
            return Err(Error::usage("the expression is nested too deeply").remedy("simplify it"));
        }
        let depth = depth + 1;
        match ast {
            Ast::Nested(inner) => {
                let inner = self.expr(inner, depth)?;
                let text = format!("({})", inner.text);
                Ok(Typed { text, ..inner })
            }
            Ast::Identifier(name) => self.column(name),
            Ast::CompoundIdentifier(names) => self.path(names),
            Ast::Value(value) => syntax::literal(&value.value, ""),
            Ast::BinaryOp { left, op, right } => self.binary(ast, left, op, right, depth),
            Ast::UnaryOp { op, expr } => self.unary(*op, expr, depth),
            Ast::Between { expr, negated, low, high } => {
                self.between([expr, low, high], *negated, depth)
            }
            Ast::InList { expr, list, negated } => self.in_list(expr, list, *negated, depth),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), depth)
            }
            Ast::IsDistinctFrom(left, right) => {
                binary(self.expr(left, depth)?, Operator::IsDistinctFrom, self.expr(right, depth)?)
            }
            Ast::IsNotDistinctFrom(left, right) => binary(
                self.expr(left, depth)?,
                Operator::IsNotDistinctFrom,
                self.expr(right, depth)?,
            ),
            other => match self.test(other, depth)? {
                Some(test) => Ok(test),
                None => self.special(other, depth),
            },
        }
    }

    fn column(&self, name: &Ident) -> Result<Typed> {
        let field = self.columns.field(column_named(self.columns, name, self.text)?);
        let expr = Expr::Column(Column::new_unqualified(field.name()));
        Ok(Typed { expr, data_type: field.data_type().clone(), text: name.to_string() })
    }

    /// `a.b`: the field `b` of the struct `a`, unless a column has this name.
    fn path(&self, names: &[Ident]) -> Result<Typed> {
        let whole = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
        if self.columns.fields().iter().any(|field| *field.name() == whole) {
            return self.column(&Ident::new(whole));
        }
        let Some((first, fields)) = names.split_first() else {
            return Err(Error::usage("a name is missing"));
        };
        fields.iter().try_fold(self.column(first)?, |from, field| self.field(from, &field.value))
    }

    pub(super) fn field(&self, from: Typed, name: &str) -> Result<Typed> {
        match &from.data_type {
            DataType::Map(..) => {
                let key = Typed::literal(ScalarValue::from(name), format!("'{name}'"));
                self.value_of_key(from, key)
            }
            DataType::Struct(fields) => {
                let mut alike = fields.iter().filter(|it| it.name().eq_ignore_ascii_case(name));
                let alike = alike.next().filter(|_| alike.next().is_none());
                let same = fields.iter().find(|field| field.name() == name);
                if let Some(field) = same.or(alike) {
                    let name = field.name().as_str();
                    let name = Typed::literal(ScalarValue::from(name), format!("'{name}'"));
                    return calls::call("get_field", vec![from, name], &self.schema);
                }
                let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
                let error = Error::usage(format!("`{}` has no field `{name}`", from.text));
                Err(error.remedy(format!("fields: {}", names.join(", "))))
            }
            _ => Err(Error::usage(format!("{} has no fields", from.described()))
                .remedy("quote a name that has a point in it")),
        }
    }

    /// A call of a function by name.
    pub(super) fn call(&self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        calls::call(name, args, &self.schema)
    }

    fn binary(
        &self,
        ast: &Ast,
        left: &Ast,
        op: &BinaryOperator,
        right: &Ast,
        depth: usize,
    ) -> Result<Typed> {
        let operator = match op {
            BinaryOperator::And | BinaryOperator::Or => return self.chain(ast, op, depth),
            BinaryOperator::StringConcat => {
                let (left, right) = (self.expr(left, depth)?, self.expr(right, depth)?);
                return syntax::concatenate(left, right);
            }
            BinaryOperator::Arrow | BinaryOperator::LongArrow => {
                let name = match op {
                    BinaryOperator::Arrow => "json_extract",
                    _ => "json_extract_string",
                };
                if let Some(call) = self.typed_call(name, &[left, right], depth)? {
                    return Ok(call);
                }
                return self.call(name, vec![self.expr(left, depth)?, self.expr(right, depth)?]);
            }
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Modulo => Operator::Modulo,
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            BinaryOperator::PGRegexMatch => Operator::RegexMatch,
            BinaryOperator::PGRegexIMatch => Operator::RegexIMatch,
            BinaryOperator::PGRegexNotMatch => Operator::RegexNotMatch,
            BinaryOperator::PGRegexNotIMatch => Operator::RegexNotIMatch,
            BinaryOperator::BitwiseAnd => Operator::BitwiseAnd,
            BinaryOperator::BitwiseOr => Operator::BitwiseOr,
            BinaryOperator::PGBitwiseShiftLeft => Operator::BitwiseShiftLeft,
            BinaryOperator::PGBitwiseShiftRight => Operator::BitwiseShiftRight,
            BinaryOperator::PGBitwiseXor | BinaryOperator::BitwiseXor => Operator::BitwiseXor,
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => {
                return self.whole_quotient(left, right, depth);
            }
            other => return Err(unsupported(format!("the operator {other}"))),
        };
        let (of, pattern) = (self.expr(left, depth)?, self.expr(right, depth)?);
        if let Some((name, is_turned)) = temporal::function_of(&of, operator, &pattern) {
            let args = if is_turned { vec![pattern, of] } else { vec![of, pattern] };
            return self.call(name, args);
        }
        if operator.to_string().contains('~') {
            regex_check::check(&pattern).map_err(|message| self.wrong(right, message))?;
        }
        binary(of, operator, pattern)
    }

    /// `a // b`: a quotient rounded down; that of integers is whole anyway.
    fn whole_quotient(&self, left: &Ast, right: &Ast, depth: usize) -> Result<Typed> {
        let (left, right) = (self.expr(left, depth)?, self.expr(right, depth)?);
        let is_whole = left.data_type.is_integer() && right.data_type.is_integer();
        let quotient = binary(left, Operator::Divide, right)?;
        match is_whole {
            true => Ok(quotient),
            false => self.call("floor", vec![quotient]),
        }
    }

    /// An error that points at a part of the expression.
    fn wrong(&self, ast: &Ast, message: String) -> Error {
        located(self.text, message, ast.span().start).remedy(regex_check::REMEDY)
    }

    /// `a AND b AND c AND d`.
    fn chain(&self, ast: &Ast, op: &BinaryOperator, depth: usize) -> Result<Typed> {
        let mut terms = vec![];
        let mut rest = ast;
        while let Ast::BinaryOp { left, op: same, right } = rest
            && same == op
        {
            terms.push(right.as_ref());
            rest = left;
        }
        terms.push(rest);
        let terms = terms.into_iter().rev().map(|term| self.expr(term, depth));
        let terms = terms.collect::<Result<Vec<_>>>()?;
        let operator = if *op == BinaryOperator::And { Operator::And } else { Operator::Or };
        balanced_chain(terms, operator)
    }

    fn unary(&self, op: UnaryOperator, of: &Ast, depth: usize) -> Result<Typed> {
        if let (UnaryOperator::Minus, Ast::Value(value)) = (op, of)
            && matches!(value.value, ast::Value::Number(..))
        {
            return syntax::literal(&value.value, "-");
        }
        let inner = self.expr(of, depth)?;
        let text = format!("{op}{}", inner.text);
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => {
                let inner = inner.boolean("what NOT is said of")?;
                Ok(Typed::new(Expr::Not(Box::new(inner.expr)), DataType::Boolean, text))
            }
            UnaryOperator::Plus if inner.family() == Family::Number => Ok(inner),
            // Subtracted from zero, so that the smallest integer overflows instead of negating to
            // itself.
            UnaryOperator::Minus if inner.data_type.is_integer() => {
                let zero = ScalarValue::new_zero(&inner.data_type);
                let zero = zero.map_err(|error| translate_error(&error, Kind::Usage))?;
                binary(Typed::literal(zero, "0"), Operator::Minus, inner)
            }
            UnaryOperator::Minus
                if matches!(inner.family(), Family::Number | Family::Interval | Family::Null) =>
            {
                let data_type = inner.data_type.clone();
                Ok(Typed::new(Expr::Negative(Box::new(inner.expr)), data_type, text))
            }
            UnaryOperator::Minus | UnaryOperator::Plus => {
                Err(Error::usage(format!("{op} needs a number, but {} is none", inner.described())))
            }
            other => Err(unsupported(format!("the operator {other}"))),
        }
    }

    /// `IS …` and `LIKE`.
    fn test(&self, ast: &Ast, depth: usize) -> Result<Option<Typed>> {
        type Make = fn(Box<Expr>) -> Expr;
        let (of, make): (&Ast, Make) = match ast {
            Ast::IsNull(of) => (of, Expr::IsNull),
            Ast::IsNotNull(of) => (of, Expr::IsNotNull),
            Ast::IsTrue(of) => (of, Expr::IsTrue),
            Ast::IsNotTrue(of) => (of, Expr::IsNotTrue),
            Ast::IsFalse(of) => (of, Expr::IsFalse),
            Ast::IsNotFalse(of) => (of, Expr::IsNotFalse),
            Ast::IsUnknown(of) => (of, Expr::IsUnknown),
            Ast::IsNotUnknown(of) => (of, Expr::IsNotUnknown),
            Ast::Like { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like([expr, pattern], escape_char.as_ref(), false, depth)?;
                return Ok(Some(negate(like, *negated)));
            }
            Ast::ILike { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like([expr, pattern], escape_char.as_ref(), true, depth)?;
                return Ok(Some(negate(like, *negated)));
            }
            _ => return Ok(None),
        };
        let of = self.expr(of, depth)?;
        let of = match ast {
            Ast::IsNull(_) | Ast::IsNotNull(_) => of,
            _ => of.boolean("what IS TRUE or IS FALSE is said of")?,
        };
        let text = format!("{} IS …", of.text);
        Ok(Some(Typed::new(make(Box::new(of.expr)), DataType::Boolean, text)))
    }

    fn like(
        &self,
        [of, pattern]: [&Ast; 2],
        escape: Option<&ast::ValueWithSpan>,
        case_insensitive: bool,
        depth: usize,
    ) -> Result<Typed> {
        let pattern = syntax::escaped_pattern(pattern, escape)?;
        let (of, pattern) = (self.expr(of, depth)?, self.expr(&pattern, depth)?);
        let text = format!("{} LIKE {}", of.text, pattern.text);
        for side in [&of, &pattern] {
            if !matches!(side.family(), Family::Text | Family::Null) {
                let is = in_words(&side.data_type);
                let message = format!("LIKE needs text, but `{}` is {is}", side.text);
                return Err(Error::usage(message).remedy("convert it with CAST(… AS TEXT)"));
            }
        }
        let Some(common) = like_coercion(&of.data_type, &pattern.data_type) else {
            return Err(Error::usage(format!("the sides of {text} have no common type")));
        };
        let (of, pattern) = (of.cast(&common), pattern.cast(&common));
        let (of, pattern) = (Box::new(of.expr), Box::new(pattern.expr));
        let like = Like::new(false, of, pattern, None, case_insensitive);
        Ok(Typed::new(Expr::Like(like), DataType::Boolean, text))
    }

    fn similar(&self, [of, pattern]: [&Ast; 2], depth: usize) -> Result<Typed> {
        let (of, regex) = (self.expr(of, depth)?, regex_check::of_similar(pattern)?);
        let regex = self.expr(&regex, depth)?;
        regex_check::check(&regex).map_err(|message| self.wrong(pattern, message))?;
        binary(of, Operator::RegexMatch, regex)
    }

    /// Special syntax: casts, EXTRACT, SUBSTRING, function calls and others.
    fn special(&self, ast: &Ast, depth: usize) -> Result<Typed> {
        match ast {
            Ast::Cast { kind, expr, data_type, format: None, array: false } => {
                let tries = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
                if *data_type == ast::DataType::Uuid {
                    let name = if tries { "try_to_uuid" } else { "to_uuid" };
                    return self.call(name, vec![self.expr(expr, depth)?]);
                }
                let to = type_of(data_type)?;
                let of = match to.is_decimal().then(|| syntax::exact_number(expr)).flatten() {
                    Some(exact) => exact,
                    None => self.expr(expr, depth)?,
                };
                of.cast_explicit(to, tries)
            }
            Ast::SimilarTo { negated, expr, pattern, escape_char: None } => {
                Ok(negate(self.similar([expr, pattern], depth)?, *negated))
            }
            Ast::TypedString(typed) => syntax::typed_string(typed),
            Ast::Interval(interval) => syntax::interval(interval),
            Ast::Function(function) => {
                if let Some(column) = self.column_of_word(function) {
                    return self.column(column);
                }
                let (name, asts) = (syntax::function_name(function)?, syntax::arguments(function)?);
                if let Some(call) = self.with_lambda(&name, &asts, depth)? {
                    return Ok(call);
                }
                if let Some(call) = self.typed_call(&name, &asts, depth)? {
                    return Ok(call);
                }
                if let Some(body) = synonyms::expanded(&name, &asts)? {
                    let text = syntax::brief(ast);
                    return Ok(Typed { text, ..self.expr(&body, depth)? });
                }
                let args = asts.iter().map(|arg| self.expr(arg, depth));
                let args = args.collect::<Result<Vec<_>>>()?;
                if let Some(pattern) = regex_check::of_call(&name).filter(|at| *at < args.len()) {
                    let checked = regex_check::check(&args[pattern]);
                    checked.map_err(|message| self.wrong(asts[pattern], message))?;
                }
                self.call(&name, args)
            }
            Ast::Array(_) | Ast::Dictionary(_) | Ast::Map(_) | Ast::Tuple(_) => {
                self.collection(ast, depth)
            }
            Ast::CompoundFieldAccess { root, access_chain } => {
                let root = self.expr(root, depth)?;
                access_chain.iter().try_fold(root, |from, access| self.access(from, access, depth))
            }
            Ast::AtTimeZone { timestamp, time_zone } => self.at_zone(timestamp, time_zone, depth),
            other => {
                let Some((name, args)) = syntax::as_call(other)? else {
                    return Err(unsupported(format!("`{}`", syntax::brief(other))));
                };
                let asts: Vec<&Ast> = args.iter().map(AsRef::as_ref).collect();
                if let Some(call) = self.typed_call(name, &asts, depth)? {
                    return Ok(call);
                }
                let args = asts.into_iter().map(|ast| self.expr(ast, depth));
                let args = args.collect::<Result<Vec<_>>>()?;
                self.call(name, args)
            }
        }
    }
}
