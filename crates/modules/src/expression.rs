//! SQL expressions over batches: what `filter`, `project` and their like are told in.
//!
//! `sqlparser` gives the syntax tree, `expression/translate.rs` gives it types, and DataFusion's
//! physical expressions compute it. Invariant: DataFusion is named here and nowhere else.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{concat, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use euphrates_flow::row::{Row, at_fault};
use euphrates_flow::{Error, Kind, Result};
use sqlparser::ast::{ExcludeSelectItem, Ident, SelectItem, WildcardAdditionalOptions};

mod around;
mod calendar;
mod calls;
mod choices;
mod common;
mod copies;
mod decimals;
mod dialect;
mod exact;
mod fields;
mod growth;
mod guards;
mod known;
mod literals;
mod moments;
mod once;
mod patterns;
mod room;
mod rounding;
mod source;
mod special;
mod translate;
mod typed;
mod types;
mod zones;

#[cfg(test)]
mod edges;
#[cfg(test)]
mod tests;

use guards::with_guards;
pub use room::{Room, SliceRows};
pub use source::parts;
use translate::{Translator, column_named, unsupported};
use typed::{Typed, physical, told};

/// An expression over the columns of one schema.
#[derive(Debug)]
pub struct Expression {
    physical: Arc<dyn PhysicalExpr>,
    /// For rows that `physical` fails with, if it may be at fault itself.
    guarded: Option<Arc<dyn PhysicalExpr>>,
    /// The columns it reads; what is computed sees no others.
    columns: Vec<usize>,
    data_type: DataType,
    nullable: bool,
    text: String,
    slice_rows: SliceRows,
}

impl Expression {
    /// Reads an expression. Whatever is wrong with it is a usage error that says where.
    pub fn parse(text: &str, schema: &Schema) -> Result<Expression> {
        guarded(|| {
            let ast = source::parse_expression(text)?;
            Expression::new(Translator::new(text, schema)?.translate(&ast)?, text, schema)
        })
    }

    /// Reads an expression that must be true or false.
    pub fn parse_condition(text: &str, schema: &Schema) -> Result<Expression> {
        guarded(|| {
            let ast = source::parse_expression(text)?;
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
        let named = DFSchema::try_from(seen.clone()).map_err(|e| told(&e, Kind::Usage))?;
        let guarded = with_guards(&typed.expr);
        let guarded = guarded.map(|expr| physical(&expr, &named)).transpose()?;
        let physical = physical(&typed.expr, &named)?;
        let data_type = physical.data_type(&seen).map_err(|e| told(&e, Kind::Usage))?;
        let nullable = physical.nullable(&seen).map_err(|e| told(&e, Kind::Usage))?;
        let text = text.to_string();
        let slice_rows = SliceRows::default();
        Ok(Expression { physical, guarded, columns, data_type, nullable, text, slice_rows })
    }

    /// The type of its values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether a value may be null.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The positions of the columns it reads, in ascending order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Its values, one a row. What is wrong with a value (an overflow, a division by zero, text
    /// that is no number) fails.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        self.evaluate_rows(batch, 0..batch.num_rows())
    }

    /// As `evaluate`, of these rows: those of a slice for which there is room (`SliceRows`).
    pub fn evaluate_rows(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<ArrayRef> {
        let seen = batch.project(&self.columns)?.slice(rows.start, rows.len());
        self.values(&seen).map_err(|error| {
            let error = match room::is_exceeded() {
                // It is evaluated again, in smaller slices.
                true if rows.len() > 1 => return room::too_long(),
                true => room::too_long(),
                false => told(&error, Kind::Failed),
            };
            let error = error.at(format!("`{}`", self.text));
            // The same values fail in the same way, so who is at fault can be asked again.
            let fails = |part: Range<usize>| {
                let part = seen.slice(part.start, part.len());
                Some(room::again(|| self.values(&part)).is_err())
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

    fn values(&self, seen: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
        let rows = seen.num_rows();
        let value = match (caught(|| self.physical.evaluate(seen)), &self.guarded) {
            (Err(_), Some(guarded)) if !room::is_exceeded() => caught(|| guarded.evaluate(seen)),
            (value, _) => value,
        };
        let value = value?;
        if let ColumnarValue::Scalar(constant) = &value {
            room::take(growth::scalar_bytes(constant).saturating_mul(rows))?;
        }
        value.into_array(rows)
    }

    /// The rows for which the condition is true; null counts as false.
    pub fn matches(&self, batch: &RecordBatch, room: &Room) -> Result<BooleanArray> {
        let mut parts: Vec<BooleanArray> = vec![];
        let work = |rows| self.true_in(batch, rows);
        self.slice_rows.each(batch.num_rows(), room, work, |_, part| {
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

    fn true_in(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<BooleanArray> {
        let array = self.evaluate_rows(batch, rows)?;
        let Some(matches) = array.as_boolean_opt() else {
            return Err(Error::usage(format!("`{}` is not true or false", self.text)));
        };
        Ok(match matches.null_count() {
            0 => matches.clone(),
            _ => prep_null_mask_filter(matches),
        })
    }
}

/// The columns of a batch and what is computed of them, under names.
#[derive(Debug)]
pub struct Projection {
    schema: SchemaRef,
    items: Vec<Item>,
    slice_rows: SliceRows,
}

#[derive(Debug)]
enum Item {
    /// A column as it is; nothing is copied.
    Column(usize),
    Computed(Expression),
}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// The column at this position.
    Column(usize),
    /// An SQL expression.
    Computed(String),
}

impl Projection {
    /// Columns and expressions under names.
    pub fn of(items: Vec<(String, Wanted)>, schema: &Schema) -> Result<Projection> {
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

    /// The schema of what comes out.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns of a batch, in slices for which there is room.
    pub fn evaluate(
        &self,
        batch: &RecordBatch,
        room: &Room,
        give: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let work = |rows: Range<usize>| self.slice(batch, rows);
        let is_computed = |item: &&Item| matches!(item, Item::Computed(_));
        let room = &room.for_columns(self.items.iter().filter(is_computed).count());
        self.slice_rows.each(batch.num_rows(), room, work, |_, slice| give(slice))
    }

    fn slice(&self, batch: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch> {
        let columns = self.items.iter().map(|item| match item {
            Item::Column(at) => Ok(batch.column(*at).slice(rows.start, rows.len())),
            Item::Computed(expression) => expression.evaluate_rows(batch, rows.clone()),
        });
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// Reads a list of columns: names, `*`, `* EXCLUDE (a, b)`, and expressions with `AS name`. Each
/// item may hold several, with commas between; one that is the name of a column is that column,
/// however it is written.
pub fn parse_projection<S: AsRef<str>>(items: &[S], schema: &Schema) -> Result<Projection> {
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
    for item in source::parse_items(text)? {
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

/// The columns `*` is told to leave out.
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

/// A panic in the libraries that compute one is an error of the row that it is about.
fn caught<T>(compute: impl FnOnce() -> Result<T, DataFusionError>) -> Result<T, DataFusionError> {
    catch_unwind(AssertUnwindSafe(compute)).unwrap_or_else(|_| {
        Err(DataFusionError::Execution("it cannot be computed of these values".into()))
    })
}

/// A panic in the libraries that read an expression is an error, not the end of the program.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err(Error::usage("the expression cannot be worked out").remedy("simplify it"))
    })
}
