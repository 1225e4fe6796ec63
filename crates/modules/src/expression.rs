//! SQL expressions over batches, for `filter`, `project` and other modules.
//!
//! `sqlparser` parses the text, `expression/translate.rs` adds types, and DataFusion's physical
//! expressions evaluate it. Invariant: only this folder uses DataFusion.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{concat, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use euphrates_flow::row::{Row, at_fault};
use euphrates_flow::{Error, Kind, Result, new_batch};
use sqlparser::ast::{ExcludeSelectItem, Ident, SelectItem, WildcardAdditionalOptions};

mod budget;
mod calls;
mod cast;
mod coercion;
mod column_names;
mod common_type;
mod compile;
mod conditional;
mod conditions;
mod date_units;
mod dialect;
mod functions;
mod literals;
mod operators;
mod parse;
mod syntax;
mod translate;
mod typed;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use budget::{Budget, SliceRows};
pub(crate) use column_names::{column_names, column_names_of, copied_column};
use compile::{physical, translate_error};
use conditions::conjunction::{Conjunction, as_typed};
pub(crate) use conditions::predicate_pushdown::{PushedCondition, compares_alone};
use functions::decimal_arithmetic::narrow_decimals;
pub(crate) use functions::decimal_arithmetic::narrow_decimals::NarrowMemo;
use functions::result_size;
use functions::short_circuit_rewrite::with_guards;
use parse::unsupported;
pub(crate) use parse::{outermost_calls, parse_expression};
use translate::{Translator, column_named};
use typed::Typed;

/// An expression over the columns of one schema.
#[derive(Debug)]
pub(crate) struct Expression {
    physical: Arc<dyn PhysicalExpr>,
    /// The short-circuiting form, for rows on which `physical` fails.
    guarded: Option<Arc<dyn PhysicalExpr>>,
    /// The terms of a condition.
    terms: Option<Conjunction>,
    /// The columns it reads, with their types.
    seen: SchemaRef,
    /// The columns it reads; evaluation sees no others.
    columns: Vec<usize>,
    data_type: DataType,
    nullable: bool,
    text: String,
    slice_rows: SliceRows,
}

impl Expression {
    /// Parses an expression. Any mistake is a usage error that points at its position.
    pub(crate) fn parse(text: &str, schema: &Schema) -> Result<Expression> {
        guarded(|| {
            let ast = parse::parse_expression(text)?;
            Expression::new(Translator::new(text, schema)?.translate(&ast)?, text, schema)
        })
    }

    /// Parses a condition, which must be boolean.
    pub(crate) fn parse_condition(text: &str, schema: &Schema) -> Result<Expression> {
        guarded(|| {
            let ast = parse::parse_expression(text)?;
            let typed = Translator::new(text, schema)?.translate(&ast)?;
            Expression::new(typed.boolean("a condition")?, text, schema)
        })
    }

    fn new(typed: Typed, text: &str, schema: &Schema) -> Result<Expression> {
        let used = typed.expr.column_refs();
        let mut columns: Vec<usize> =
            used.iter().map(|column| Ok(schema.index_of(&column.name)?)).collect::<Result<_>>()?;
        columns.sort_unstable();
        let seen = Arc::new(schema.project(&columns)?);
        let named =
            DFSchema::try_from(seen.clone()).map_err(|e| translate_error(&e, Kind::Usage))?;
        let guarded = with_guards(&typed.expr);
        let guarded = guarded.map(|expr| physical(&expr, &named)).transpose()?;
        let terms = match typed.data_type {
            DataType::Boolean => Some(Conjunction::new(&typed.expr, &named)?),
            _ => None,
        };
        let physical = physical(&typed.expr, &named)?;
        let data_type = physical.data_type(&seen).map_err(|e| translate_error(&e, Kind::Usage))?;
        let nullable = physical.nullable(&seen).map_err(|e| translate_error(&e, Kind::Usage))?;
        let text = text.to_string();
        let slice_rows = SliceRows::default();
        Ok(Expression {
            physical,
            guarded,
            terms,
            seen,
            columns,
            data_type,
            nullable,
            text,
            slice_rows,
        })
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    #[cfg(test)]
    pub(crate) fn nullable(&self) -> bool {
        self.nullable
    }

    /// The positions of the columns it reads, in ascending order.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The value of each row. Fails if a value cannot be computed (overflow, division by zero,
    /// malformed number).
    #[cfg(test)]
    pub(crate) fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.evaluate_rows(batch, 0..batch.num_rows())
    }

    /// Like `evaluate`, for a range of rows that fits the budget (`SliceRows`).
    pub(crate) fn evaluate_rows(
        &self,
        batch: &RecordBatch,
        rows: Range<usize>,
    ) -> Result<ArrayRef> {
        let seen = batch.project(&self.columns)?.slice(rows.start, rows.len());
        self.values(&seen).map_err(|error| {
            let error = match budget::is_exceeded() {
                // The caller evaluates the slice again, in smaller ones.
                true if rows.len() > 1 => return budget::too_long(),
                true => budget::too_long(),
                false => translate_error(&error, Kind::Failed),
            };
            let error = error.at(format!("`{}`", self.text));
            // Evaluation is deterministic, so evaluating parts again finds the row at fault.
            let fails = |part: Range<usize>| {
                let part = seen.slice(part.start, part.len());
                Some(budget::again(|| self.values(&part)).is_err())
            };
            match at_fault(rows.len(), fails) {
                Some(part) if part.len() == 1 => {
                    let row = rows.start + part.start;
                    let about = format!("row {row} of a batch of its input");
                    error.in_row(|| Row::of(batch, row, about))
                }
                _ => error,
            }
        })
    }

    /// Whether it is arithmetic on decimals that `evaluate_narrow` may evaluate.
    pub(crate) fn may_be_narrow(&self) -> bool {
        matches!(self.data_type, DataType::Decimal128(..))
            && narrow_decimals::is_arithmetic(&self.physical)
    }

    /// Like `evaluate_rows`, as decimals of 64 bits; `None` if some values have more, or fail.
    /// `memo` has what was evaluated for these rows before.
    pub(crate) fn evaluate_narrow(
        &self,
        batch: &RecordBatch,
        rows: Range<usize>,
        memo: &mut NarrowMemo,
    ) -> Option<ArrayRef> {
        let DataType::Decimal128(_, scale) = self.data_type else { return None };
        let seen = batch.project(&self.columns).ok()?.slice(rows.start, rows.len());
        caught(|| Ok(memo.evaluate(&self.physical, &seen, scale))).ok()?
    }

    fn values(&self, seen: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        let rows = seen.num_rows();
        let value = match (caught(|| self.physical.evaluate(seen)), &self.guarded) {
            (Err(_), Some(guarded)) if !budget::is_exceeded() => caught(|| guarded.evaluate(seen)),
            (value, _) => value,
        };
        let value = value?;
        if let ColumnarValue::Scalar(constant) = &value {
            budget::take(result_size::scalar_bytes(constant).saturating_mul(rows))?;
        }
        value.into_array(rows)
    }

    /// The rows for which the condition is true; null counts as false.
    pub(crate) fn matches(&self, batch: &RecordBatch, budget: &Budget) -> Result<BooleanArray> {
        let mut parts: Vec<BooleanArray> = vec![];
        let work = |rows| self.true_in(batch, rows);
        self.slice_rows.each(batch.num_rows(), budget, work, |_, part| {
            parts.push(part);
            Ok(())
        })?;
        match parts.as_slice() {
            [one] => Ok(one.clone()),
            parts => {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part as &dyn Array).collect();
                Ok(concat(&parts)?.as_boolean().clone())
            }
        }
    }

    /// Like `matches`, for a condition that reserves no memory, given a batch of the columns that
    /// it reads, which may come with dictionaries.
    pub(crate) fn matches_columns(&self, seen: &RecordBatch) -> Result<BooleanArray> {
        if let Some(matches) = self.matches_terms(seen) {
            return Ok(matches);
        }
        let array = as_typed(seen, &self.seen).and_then(|seen| self.values(&seen));
        self.truth(&array.map_err(|error| translate_error(&error, Kind::Failed))?)
    }

    /// The rows for which all terms are true; `None` if evaluating one fails, or this is not a
    /// condition.
    fn matches_terms(&self, seen: &RecordBatch) -> Option<BooleanArray> {
        let terms = self.terms.as_ref()?;
        caught(|| terms.matches(seen)).ok()
    }

    fn true_in(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<BooleanArray> {
        let seen = batch.project(&self.columns)?.slice(rows.start, rows.len());
        if let Some(matches) = self.matches_terms(&seen) {
            return Ok(matches);
        }
        self.truth(&self.evaluate_rows(batch, rows)?)
    }

    fn truth(&self, array: &ArrayRef) -> Result<BooleanArray> {
        let Some(matches) = array.as_boolean_opt() else {
            return Err(Error::usage(format!("`{}` is not true or false", self.text)));
        };
        Ok(match matches.null_count() {
            0 => matches.clone(),
            _ => prep_null_mask_filter(matches),
        })
    }
}

/// Named columns and expressions of a schema.
#[derive(Debug)]
pub(crate) struct Projection {
    schema: SchemaRef,
    items: Vec<Item>,
    slice_rows: SliceRows,
}

#[derive(Debug)]
enum Item {
    /// An input column, which is not copied.
    Column(usize),
    Computed(Expression),
}

/// The source of an output column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wanted {
    /// The input column at this position.
    Column(usize),
    Computed(String),
}

impl Projection {
    /// A projection to these named sources.
    pub(crate) fn of(items: Vec<(String, Wanted)>, schema: &Schema) -> Result<Projection> {
        let item = |(name, wanted): (String, Wanted)| match wanted {
            Wanted::Column(at) => {
                let field = schema.field(at).clone().with_name(name);
                Ok((Arc::new(field), Item::Column(at)))
            }
            Wanted::Computed(text) => {
                let expression = Expression::parse(&text, schema);
                let expression = expression.map_err(|error| error.at(format!("values: {name}")))?;
                let field = Field::new(name, expression.data_type.clone(), expression.nullable);
                Ok((Arc::new(field), Item::Computed(expression)))
            }
        };
        let items = items.into_iter().map(item).collect::<Result<Vec<_>>>()?;
        let (fields, items): (Vec<FieldRef>, Vec<Item>) = items.into_iter().unzip();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Projection { schema, items, slice_rows: SliceRows::default() })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The output columns of a batch, in slices that fit the budget.
    pub(crate) fn evaluate(
        &self,
        batch: &RecordBatch,
        budget: &Budget,
        give: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let work = |rows: Range<usize>| self.slice(batch, rows);
        let is_computed = |item: &&Item| matches!(item, Item::Computed(_));
        let budget = &budget.for_columns(self.items.iter().filter(is_computed).count());
        self.slice_rows.each(batch.num_rows(), budget, work, |_, slice| give(slice))
    }

    fn slice(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch> {
        let columns = self.items.iter().map(|item| match item {
            Item::Column(at) => Ok(batch.column(*at).slice(rows.start, rows.len())),
            Item::Computed(expression) => expression.evaluate_rows(batch, rows.clone()),
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(new_batch(self.schema.clone(), columns, rows.len())?)
    }
}

/// Parses a list of columns: names, `*`, `* EXCLUDE (a, b)`, and expressions with `AS name`. An
/// item may hold several, separated by commas. An item that equals the name of a column is that
/// column.
pub(crate) fn parse_projection<S: AsRef<str>>(items: &[S], schema: &Schema) -> Result<Projection> {
    guarded(|| {
        let mut chosen: Vec<(FieldRef, Item)> = vec![];
        for text in items.iter().map(AsRef::as_ref) {
            match schema.index_of(text) {
                Ok(at) => chosen.push((schema.fields()[at].clone(), Item::Column(at))),
                Err(_) => parse_items(text, schema, &mut chosen)?,
            }
        }
        let mut names = std::collections::HashSet::new();
        if let Some((field, _)) = chosen.iter().find(|(field, _)| !names.insert(field.name())) {
            let message = format!("two columns are named `{}`", field.name());
            return Err(Error::usage(message).remedy("name one of them with AS, or EXCLUDE it"));
        }
        let (fields, items): (Vec<FieldRef>, Vec<Item>) = chosen.into_iter().unzip();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        Ok(Projection { schema, items, slice_rows: SliceRows::default() })
    })
}

fn parse_items(text: &str, schema: &Schema, chosen: &mut Vec<(FieldRef, Item)>) -> Result<()> {
    let translator = Translator::new(text, schema)?;
    let column = |at: usize| (schema.fields()[at].clone(), Item::Column(at));
    for item in parse::parse_items(text)? {
        let (ast, alias) = match item {
            SelectItem::Wildcard(options) => {
                let left_out = left_out(&options, schema, text)?;
                let kept = (0..schema.fields().len()).filter(|at| !left_out.contains(at));
                chosen.extend(kept.map(column));
                continue;
            }
            SelectItem::UnnamedExpr(ast) => (ast, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value)),
            other => return Err(unsupported(format!("`{other}`"))),
        };
        if let sqlparser::ast::Expr::Identifier(name) = &ast {
            let at = column_named(schema, name, text)?;
            let field = schema.field(at);
            let name = alias.unwrap_or_else(|| field.name().clone());
            chosen.push((Arc::new(field.clone().with_name(name)), Item::Column(at)));
            continue;
        }
        let name = alias.unwrap_or_else(|| ast.to_string());
        let typed = translator.translate(&ast)?;
        let expression = Expression::new(typed, &ast.to_string(), schema)?;
        let field = Field::new(name, expression.data_type.clone(), expression.nullable);
        chosen.push((Arc::new(field), Item::Computed(expression)));
    }
    Ok(())
}

/// The columns that `*` excludes.
fn left_out(
    options: &WildcardAdditionalOptions,
    schema: &Schema,
    text: &str,
) -> Result<Vec<usize>> {
    let other = options.opt_ilike.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
        || options.opt_alias.is_some();
    if other {
        return Err(unsupported(format!("`*{options}`")).remedy("use `* EXCLUDE (…)`"));
    }
    let mut names: Vec<Ident> = vec![];
    let excluded = match &options.opt_exclude {
        None => vec![],
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().collect(),
    };
    for name in excluded {
        match name.0.as_slice() {
            [part] => names.extend(part.as_ident().cloned()),
            _ => return Err(unsupported(format!("`{name}`"))),
        }
    }
    if let Some(except) = &options.opt_except {
        names.push(except.first_element.clone());
        names.extend(except.additional_elements.iter().cloned());
    }
    names.iter().map(|name| column_named(schema, name, text)).collect()
}

/// The arguments of a call without names or clauses.
pub(crate) fn call_arguments(
    call: &sqlparser::ast::Function,
) -> Result<Vec<&sqlparser::ast::Expr>> {
    syntax::arguments(call)
}

/// The text that an expression without columns is; `None` if it is none.
pub(crate) fn constant_text(text: &str) -> Result<Option<String>> {
    let constant = Expression::parse(text, &Schema::empty())?;
    let row = new_batch(Arc::new(Schema::empty()), vec![], 1)?;
    let value = constant.evaluate_rows(&row, 0..1)?;
    let value = arrow::compute::cast(&value, &DataType::Utf8)?;
    let is_text = matches!(constant.data_type(), DataType::Utf8 | DataType::LargeUtf8);
    Ok(is_text.then(|| value.as_string::<i32>().value(0).to_string()))
}

/// Turns a panic during evaluation into an error.
fn caught<T>(compute: impl FnOnce() -> Result<T, DataFusionError>) -> Result<T, DataFusionError> {
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|_| {
        Err(DataFusionError::Execution("it cannot be computed of these values".into()))
    })
}

/// Turns a panic during parsing into an error.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(Error::usage("the expression cannot be worked out").remedy("simplify it"))
    })
}
