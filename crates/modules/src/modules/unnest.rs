//! Makes a row of each item of a list.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown_column;
use euphrates_flow::module::{Bound, ColumnNames, Configure, Inputs, Interface, Needs};
use euphrates_flow::{
    Error, InputOrder, Module, ModuleSpec, Ports, RecoveryClass, Result, Setup, new_batch, spec,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batches::coalescer::Coalescer;
use crate::batches::run_preserving::{RunStep, process_in_runs};

/// The most rows that are made at once, and the bytes that their repeated columns may take.
const ROWS_AT_ONCE: usize = 1 << 16;
const BYTES_AT_ONCE: usize = 8 << 20;

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "unnest",
    summary: "Makes a row of each item of a list.",
    detail: "The other columns are repeated for each item. Lists of several columns are read side \
             by side: where one is shorter, its items are null. A row whose lists are all empty or \
             null makes no row, unless `keep_empty` gives it one, with nulls.",
    example: r#">>> orders = eu.from_arrow({"city": ["Ur", "Kish"], "low": [2, 5], "high": [3, 6]})
>>> flow = eu.Flow()
>>> lists = flow.chain(orders, eu.project(["city", "[low, high] as price"]))
>>> _ = flow.chain(lists, eu.unnest(["price"]), eu.collect())
>>> flow.go().collected().to_pydict()
{'city': ['Ur', 'Ur', 'Kish', 'Kish'], 'price': [2, 3, 5, 6]}"#,
    order: InputOrder::Keeps,
    recovery: RecoveryClass::ByUnit,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        if config.columns.is_empty() {
            return Err(Error::usage("`columns` is empty").remedy("name at least one"));
        }
        Ok(Arc::new(Unnest(config)))
    },
    ..ModuleSpec::USUAL
};

/// Which lists to take apart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Columns of lists.
    pub(crate) columns: Vec<String>,
    /// Whether a row without items makes a row, with nulls in their place.
    #[serde(default)]
    pub(crate) keep_empty: bool,
}

struct Unnest(Config);

impl Configure for Unnest {
    fn interface(&self) -> Interface {
        let mut names = ColumnNames::default();
        self.0.columns.iter().for_each(|name| names.add(name));
        Interface { needs: Needs::PassedOn(names), ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let input = &inputs.schemas[0];
        let find = |name: &String| input.index_of(name).map_err(|_| unknown_column(name, input));
        let lists: Vec<usize> = self.0.columns.iter().map(find).collect::<Result<_>>()?;
        let output = output(input, &lists).map_err(|error| error.at("columns"))?;
        let plan = Arc::new(UnnestPlan { lists, keep_empty: self.0.keep_empty, output });
        let schema = plan.output.clone();
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let plan = plan.clone();
            Ok(Box::new(move |ports: &mut Ports| {
                let mut coalescer = Coalescer::default();
                process_in_runs(ports, |ports, step| {
                    match step {
                        RunStep::Batch(batch, _) => {
                            plan.unnest(&batch, &mut |rows| coalescer.put(ports, rows))?;
                        }
                        RunStep::End => coalescer.flush(ports)?,
                    }
                    Ok(ControlFlow::Continue(()))
                })
            }))
        };
        Ok(Bound { bytes_expected: inputs.bytes[0], ..Bound::new([schema], instance) })
    }
}

/// The columns with items in place of lists.
fn output(input: &SchemaRef, lists: &[usize]) -> Result<SchemaRef> {
    let fields = input.fields().iter().enumerate().map(|(at, field)| {
        if !lists.contains(&at) {
            return Ok(field.clone());
        }
        use DataType::{FixedSizeList, LargeList, List};
        match field.data_type() {
            List(item) | LargeList(item) | FixedSizeList(item, _) => {
                Ok(Arc::new(Field::new(field.name(), item.data_type().clone(), true)))
            }
            other => {
                let error = Error::usage(format!("`{}` is not a list but {other}", field.name()));
                Err(error.remedy("leave it out, or make a list of it: `[x] as x`"))
            }
        }
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

struct UnnestPlan {
    lists: Vec<usize>,
    keep_empty: bool,
    output: SchemaRef,
}

/// A column of lists: all items, and where those of each row are.
struct ListColumn {
    items: ArrayRef,
    ranges: Vec<Range<usize>>,
}

impl ListColumn {
    fn of(column: &ArrayRef) -> ListColumn {
        let (items, mut ranges): (ArrayRef, Vec<Range<usize>>) = match column.data_type() {
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                let ends = list.value_offsets().windows(2);
                let ranges = ends.map(|ends| ends[0] as usize..ends[1] as usize);
                (list.values().clone(), ranges.collect())
            }
            DataType::LargeList(_) => {
                let list = column.as_list::<i64>();
                let ends = list.value_offsets().windows(2);
                let ranges = ends.map(|ends| ends[0] as usize..ends[1] as usize);
                (list.values().clone(), ranges.collect())
            }
            _ => {
                let list = column.as_fixed_size_list();
                let length = list.value_length() as usize;
                let ranges = (0..list.len()).map(|row| row * length..(row + 1) * length);
                (list.values().clone(), ranges.collect())
            }
        };
        for row in (0..column.len()).filter(|row| column.is_null(*row)) {
            ranges[row] = 0..0;
        }
        ListColumn { items, ranges }
    }
}

impl UnnestPlan {
    fn unnest(
        &self,
        batch: &RecordBatch,
        put: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let lists: Vec<ListColumn> =
            self.lists.iter().map(|at| ListColumn::of(batch.column(*at))).collect();
        let least = usize::from(self.keep_empty);
        let items_of = |row: usize| {
            lists.iter().map(|list| list.ranges[row].len()).max().unwrap_or(0).max(least)
        };
        let rows_max = self.rows_at_once(batch);
        let mut chosen = ChosenItems::new(lists.len());
        for row in 0..batch.num_rows() {
            for item in 0..items_of(row) {
                chosen.rows.push(row as u64);
                for (list, of_list) in lists.iter().zip(&mut chosen.items) {
                    let range = &list.ranges[row];
                    of_list.push((item < range.len()).then(|| (range.start + item) as u64));
                }
                if chosen.rows.len() == rows_max {
                    put(self.rows(batch, &lists, &mut chosen)?)?;
                }
            }
        }
        match chosen.rows.is_empty() {
            true => Ok(()),
            false => put(self.rows(batch, &lists, &mut chosen)?),
        }
    }

    /// How many rows are made at once, given what the repeated columns of one take.
    fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let columns = batch.columns().iter().enumerate();
        let repeated = columns.filter(|(at, _)| !self.lists.contains(at));
        let bytes: usize =
            repeated.map(|(_, column)| column.to_data().get_slice_memory_size().unwrap_or(0)).sum();
        let row_bytes = bytes / batch.num_rows().max(1);
        (BYTES_AT_ONCE / row_bytes.max(1)).clamp(1, ROWS_AT_ONCE)
    }

    /// The rows of the chosen items, which are taken.
    fn rows(
        &self,
        batch: &RecordBatch,
        lists: &[ListColumn],
        chosen: &mut ChosenItems,
    ) -> Result<RecordBatch> {
        let rows = UInt64Array::from(std::mem::take(&mut chosen.rows));
        let items = chosen.items.iter_mut().map(std::mem::take);
        let items: Vec<UInt64Array> = items.map(UInt64Array::from).collect();
        let columns = (0..batch.num_columns()).map(|at| {
            match self.lists.iter().position(|list| *list == at) {
                None => Ok(take(batch.column(at), &rows, None)?),
                Some(number) if lists[number].items.is_empty() => {
                    Ok(new_null_array(lists[number].items.data_type(), rows.len()))
                }
                Some(number) => Ok(take(&lists[number].items, &items[number], None)?),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(new_batch(self.output.clone(), columns, rows.len())?)
    }
}

/// The rows that are made: where each comes from, and the item of each list, if there is one.
struct ChosenItems {
    rows: Vec<u64>,
    items: Vec<Vec<Option<u64>>>,
}

impl ChosenItems {
    fn new(lists: usize) -> ChosenItems {
        ChosenItems { rows: vec![], items: vec![vec![]; lists] }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int64Type;
    use serde_json::json;

    use super::*;
    use crate::testing::{Harness, check};

    fn lists(rows: Vec<Option<Vec<Option<i64>>>>) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
    }

    fn batch(columns: [(&str, ArrayRef); 2]) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, of)| (name, of, true)))
            .unwrap()
    }

    fn numbers(of: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(of))
    }

    #[test]
    fn each_item_makes_a_row() {
        let given = lists(vec![
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(7), Some(8), Some(9)]),
        ]);
        let keys = numbers(vec![Some(10), Some(20), Some(30), None]);
        let input = batch([("k", keys), ("x", given)]);
        let expected = batch([
            ("k", numbers(vec![Some(10), Some(10), None, None, None])),
            ("x", numbers(vec![Some(1), None, Some(7), Some(8), Some(9)])),
        ]);
        let parts = [input.slice(0, 2), input.slice(2, 2)];
        check(&MODULE, json!({"columns": ["x"]}), &parts, &expected);
    }

    #[test]
    fn rows_without_items_are_kept_on_demand() {
        let input = batch([
            ("k", numbers(vec![Some(1), Some(2)])),
            ("x", lists(vec![None, Some(vec![Some(5)])])),
        ]);
        let expected =
            batch([("k", numbers(vec![Some(1), Some(2)])), ("x", numbers(vec![None, Some(5)]))]);
        check(&MODULE, json!({"columns": ["x"], "keep_empty": true}), &[input], &expected);
    }

    #[test]
    fn shorter_lists_are_filled_with_nulls() {
        let input = batch([
            ("a", lists(vec![Some(vec![Some(1)])])),
            ("b", lists(vec![Some(vec![Some(2), Some(3)])])),
        ]);
        let expected =
            batch([("a", numbers(vec![Some(1), None])), ("b", numbers(vec![Some(2), Some(3)]))]);
        check(&MODULE, json!({"columns": ["a", "b"]}), &[input], &expected);
    }

    #[test]
    fn other_columns_are_refused() {
        let input = batch([("k", numbers(vec![])), ("x", lists(vec![]))]);
        let harness = Harness::new(&MODULE, json!({"columns": ["k"]}));
        let (_, outcome) = harness.input(input.schema(), &[input]).run();
        assert!(outcome.unwrap_err().to_string().contains("`k` is not a list"));
    }
}
