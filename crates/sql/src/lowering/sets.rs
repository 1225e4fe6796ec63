//! Unions, lists of values, and rows without columns.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use datafusion_common::{Column, DFSchema};
use datafusion_expr::logical_plan::{EmptyRelation, Union, Values};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use datafusion_expr::{Expr, ExprSchemable};
use euphrates_flow::document::Document;
use euphrates_flow::{Error, Result};
use serde_json::json;

use super::{Lowering, PlannedRows};
use crate::expressions::{Names, cast_text, name_of, named, quoted, text_of};
use crate::output_names::{internal, unique};

impl Lowering<'_> {
    /// The rows of all inputs, with the names of the first, in types that hold the values of all.
    pub(super) fn union(&mut self, union: &Union) -> Result<PlannedRows> {
        let columns = union.schema.columns();
        let mut inputs = vec![];
        for input in &union.inputs {
            let rows = self.stream(input)?;
            // The types of the modules, which the planner does not know.
            let types = self.types_of(&rows.id)?;
            let known = input.schema().columns();
            let known = known.iter().map(|column| name_of(column, &rows.names));
            let known = known.map(|name| name.map(str::to_string)).collect::<Result<Vec<_>>>()?;
            let types: Vec<DataType> = known
                .iter()
                .map(|name| plain(types.get(name).unwrap_or(&DataType::Null)))
                .collect();
            if known.len() != columns.len() {
                let counts = format!("{} and {} columns", columns.len(), known.len());
                let error = Error::usage(format!("the parts of a union have {counts}"));
                return Err(error.remedy("select as many in each of them"));
            }
            inputs.push((rows, known, types));
        }
        let common = (0..columns.len()).map(|at| {
            let types: Vec<DataType> =
                inputs.iter().map(|(_, _, types)| types[at].clone()).collect();
            common_type(&types)
        });
        let common = common.collect::<Result<Vec<_>>>()?;
        let mut used = HashSet::new();
        let names = columns.iter().map(|column| unique(&internal(&column.name), &mut used));
        let names = names.collect::<Vec<String>>();
        let id = self.document.place("union", json!({}), None);
        for (rows, known, types) in inputs {
            let mut texts = vec![];
            for (at, name) in names.iter().enumerate() {
                let text = match types[at] == common[at] {
                    true => quoted(&known[at]),
                    false => cast_text(&known[at], &common[at])?,
                };
                texts.push(named(&text, name));
            }
            let last = self.behind(&rows.id, "project", json!({"columns": texts}));
            self.attach(&last, &id, None);
        }
        Ok(PlannedRows::of(id, columns.into_iter().zip(names).collect()))
    }

    /// One row, or none, without columns.
    pub(super) fn empty(&mut self, empty: &EmptyRelation) -> Result<PlannedRows> {
        let rows = u64::from(empty.produce_one_row);
        let id = self.document.place("generate", json!({"what": "integers", "rows": rows}), None);
        let columns = empty.schema.columns();
        if columns.is_empty() {
            return Ok(PlannedRows { id, columns: vec!["n".into()], names: vec![] });
        }
        let fields = empty.schema.fields().iter();
        let texts = fields.map(|field| {
            let text = cast_text("n", field.data_type())?;
            Ok(named(&text, field.name()))
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let names = columns.iter().map(|column| (column.clone(), column.name.clone())).collect();
        let id = self.behind(&id, "project", json!({"columns": texts}));
        Ok(PlannedRows::of(id, names))
    }

    /// The columns of a stream without its rows, which are not computed: `before` is the document
    /// without their modules.
    pub(super) fn no_rows(&mut self, rows: PlannedRows, before: Document) -> Result<PlannedRows> {
        let types = self.types_of(&rows.id)?;
        self.document = before;
        let id = self.document.place("generate", json!({"what": "integers", "rows": 0}), None);
        let texts = rows.columns.iter().map(|name| {
            let text = cast_text("nothing", types.get(name).unwrap_or(&DataType::Null))?;
            Ok(named(&text, name))
        });
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let id = self.behind(&id, "project", json!({"columns": ["null as nothing"]}));
        let id = self.behind(&id, "project", json!({"columns": texts}));
        Ok(PlannedRows { id, ..rows })
    }

    /// Rows whose values are written in the query: a number chooses the row.
    pub(super) fn values(&mut self, values: &Values) -> Result<PlannedRows> {
        let rows = values.values.len();
        let id = self.document.place("generate", json!({"what": "integers", "rows": rows}), None);
        let none: Names = vec![(Column::new_unqualified("n"), "n".into())];
        let columns = values.schema.columns();
        let mut texts = vec![];
        for (at, column) in columns.iter().enumerate() {
            let is_float = |items: &Vec<Expr>| {
                let of = written(&items[at]).get_type(&DFSchema::empty());
                of.is_ok_and(|of| of.is_floating())
            };
            let has_floats = values.values.iter().any(is_float);
            let cases = values.values.iter().enumerate().map(|(row, items)| {
                let value = if has_floats { written(&items[at]) } else { &items[at] };
                Ok(format!("when {row} then {}", text_of(value, &none)?))
            });
            let cases = cases.collect::<Result<Vec<_>>>()?.join(" ");
            texts.push(named(&format!("case n {cases} end"), &column.name));
        }
        let id = self.behind(&id, "project", json!({"columns": texts}));
        let names = columns.into_iter().map(|column| (column.clone(), column.name)).collect();
        Ok(PlannedRows::of(id, names))
    }
}

/// A value without the cast by which the planner makes it a decimal, although there are floating
/// point numbers beside it.
fn written(value: &Expr) -> &Expr {
    match value {
        Expr::Cast(cast) if cast.field.data_type().is_decimal() => &cast.expr,
        other => other,
    }
}

/// A type that holds the values of all.
pub(super) fn common_type(types: &[DataType]) -> Result<DataType> {
    // Nulls without a type are cast to any.
    let types: &[DataType] = &types.iter().filter(|of| !of.is_null()).cloned().collect::<Vec<_>>();
    let Some(first) = types.first() else { return Ok(DataType::Null) };
    if types.iter().all(|other| other == first) {
        return Ok(first.clone());
    }
    if types.iter().any(DataType::is_floating) && types.iter().all(DataType::is_numeric) {
        return Ok(DataType::Float64);
    }
    let is_text =
        |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    // Every value has a text, and few texts are values of the other type.
    let has_text = types.iter().any(is_text);
    let is_simple = |of: &DataType| is_text(of) || of.is_primitive() || *of == DataType::Boolean;
    if has_text && !types.iter().all(is_text) && types.iter().all(is_simple) {
        return Ok(DataType::Utf8);
    }
    let common = type_union_resolution(types);
    common.ok_or_else(|| {
        let types: Vec<String> = types.iter().map(DataType::to_string).collect();
        Error::usage(format!("{} have no common type", types.join(" and ")))
            .remedy("convert them with CAST(… AS …)")
    })
}

/// The type of the values, if they are in a dictionary.
fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    }
}
