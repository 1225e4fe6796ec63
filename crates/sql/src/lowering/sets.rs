//! Unions, lists of values, and rows without columns.

use datafusion_common::Column;
use datafusion_expr::logical_plan::{EmptyRelation, Union, Values};
use datafusion_expr::type_coercion::binary::type_union_resolution;
use euphrates_flow::Result;
use serde_json::json;

use super::{Lowering, PlannedRows};
use crate::expressions::{Names, cast_text, name_of, named, quoted, text_of};
use crate::output_names::unique;
use crate::statement::unsupported;

impl Lowering<'_> {
    /// The rows of all inputs, with the names of the first, in types that hold the values of all.
    pub(super) fn union(&mut self, union: &Union) -> Result<PlannedRows> {
        let columns = union.schema.columns();
        let types = (0..columns.len()).map(|at| {
            let inputs = union.inputs.iter();
            let types = inputs.map(|input| input.schema().field(at).data_type().clone());
            let types = types.collect::<Vec<_>>();
            let first = types[0].clone();
            if types.iter().all(|other| *other == first) {
                return Ok(None);
            }
            let common = type_union_resolution(&types);
            common.map(Some).ok_or_else(|| unsupported(&format!("a union of {types:?}")))
        });
        let types = types.collect::<Result<Vec<_>>>()?;
        let mut used = std::collections::HashSet::new();
        let names = columns.iter().map(|column| unique(&column.name, &mut used));
        let names = names.collect::<Vec<String>>();
        let id = self.document.place("union", json!({}), None);
        for input in &union.inputs {
            let stream = self.stream(input)?;
            let inner = input.schema().columns();
            let mut texts = vec![];
            for ((inner, name), data_type) in inner.iter().zip(&names).zip(&types) {
                let known = name_of(inner, &stream.names)?;
                let text = match data_type {
                    Some(data_type) => cast_text(known, data_type)?,
                    None => quoted(known),
                };
                texts.push(named(&text, name));
            }
            let last = self.behind(&stream.id, "project", json!({"columns": texts}));
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

    /// Rows whose values are written in the query: a number chooses the row.
    pub(super) fn values(&mut self, values: &Values) -> Result<PlannedRows> {
        let rows = values.values.len();
        let id = self.document.place("generate", json!({"what": "integers", "rows": rows}), None);
        let none: Names = vec![(Column::new_unqualified("n"), "n".into())];
        let columns = values.schema.columns();
        let mut texts = vec![];
        for (at, column) in columns.iter().enumerate() {
            let cases =
                values.values.iter().enumerate().map(|(row, items)| {
                    Ok(format!("when {row} then {}", text_of(&items[at], &none)?))
                });
            let cases = cases.collect::<Result<Vec<_>>>()?.join(" ");
            texts.push(named(&format!("case n {cases} end"), &column.name));
        }
        let id = self.behind(&id, "project", json!({"columns": texts}));
        let names = columns.into_iter().map(|column| (column.clone(), column.name)).collect();
        Ok(PlannedRows::of(id, names))
    }
}
