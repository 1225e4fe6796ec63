//! Merges sorted streams.
//!
//! One batch of each input is held, however long the inputs are: a node of the merge tree that
//! sorts any amount in the same memory (Beowulf out-of-core sort, 3.2). Each round puts all records
//! up to the least of the batches' last keys, which no later record can precede, so each round uses
//! up at least one batch.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow::row::Rows;
use euphrates_flow::module::{Bound, Configure, Inputs, Interface, OutputOrder};
use euphrates_flow::{
    Error, InputOrder, Module, ModuleSpec, PortNames, Ports, Result, Setup, Taken, batch_bytes,
    batch_rows, spec, split_batch,
};
use euphrates_policy::sort::RANGE_BYTES_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batches::schema_compatibility::{common_schema, conform};
use crate::order_by::{SortKey, parse_keyed, resolve};
use crate::sort::gather::Sources;
use crate::sort::key_sorting::{Presorted, sort_keys};
use crate::sort::keys::key_encoder::{EncodedKeys, KeyEncoder};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "merge",
    summary: "Makes one sorted stream of several.",
    detail: "As many inputs as are attached, each a stream sorted by `by`, which is written as for \
             `sort`; one that is not is an error that names the row. Of records with equal keys, \
             those of the earlier input come first. A batch of each input is held, so the memory \
             does not depend on how much there is.",
    example: r#">>> flow = eu.Flow()
>>> merge = flow.chain(eu.from_arrow({"n": [1, 4]}, order=True), eu.merge("n"))
>>> _ = flow.chain(eu.from_arrow({"n": [2, 3]}, order=True), merge, eu.collect())
>>> flow.go().collected().to_pydict()
{'n': [1, 2, 3, 4]}"#,
    inputs: PortNames::Many,
    order: InputOrder::Ordered,
    parallel: false,
    config_schema: spec::schema_of::<Config>,
    configure: |config| Ok(Arc::new(Merge(parse_keyed(config, |config: &Config| &config.by)?))),
    ..ModuleSpec::USUAL
};

/// What the inputs are sorted by.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The columns, most significant first.
    pub(crate) by: Vec<SortKey>,
}

struct Merge(Config);

impl Configure for Merge {
    fn interface(&self) -> Interface {
        Interface { needs_runs: true, ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let schema = Arc::new(common_schema(inputs.schemas)?);
        let columns = resolve(&self.0.by, &schema)?;
        let encoder = Arc::new(KeyEncoder::new(&schema, columns)?);
        let sorted_by: Vec<String> = self.0.by.iter().map(SortKey::to_string).collect();
        let (output, by) = (schema.clone(), sorted_by.join(", "));
        let instance = move |_: &Setup| -> Result<Box<dyn Module>> {
            let (schema, encoder, by) = (schema.clone(), encoder.clone(), by.clone());
            Ok(Box::new(Instance { schema, encoder, by, run: OutputRun::default() }))
        };
        Ok(Bound {
            order: OutputOrder::Runs,
            sorted_by,
            bytes_expected: inputs.bytes.iter().copied().sum(),
            ..Bound::new([output], instance)
        })
    }
}

struct Instance {
    schema: SchemaRef,
    encoder: Arc<KeyEncoder>,
    by: String,
    run: OutputRun,
}

/// The current run of the output.
#[derive(Default)]
struct OutputRun {
    number: u64,
    bytes: usize,
}

/// The held records of an input: its current batch, and batches that arrived with it.
struct InputHead {
    input: usize,
    batch: RecordBatch,
    keys: EncodedKeys,
    /// Rows of the batch that have been put.
    used: usize,
    waiting: VecDeque<RecordBatch>,
    before: usize,
    is_over: bool,
}

impl Module for Instance {
    fn run(&mut self, ports: &mut Ports) -> Result<()> {
        let mut heads: Vec<InputHead> = (0..ports.inputs()).map(|input| self.head(input)).collect();
        loop {
            for head in &mut heads {
                self.refill(head, ports)?;
            }
            let Some(keys) = self.round(&mut heads) else { return self.end_run(ports) };
            let batches = || heads.iter().map(|head| &head.batch);
            let (bytes, rows) = batches()
                .fold((0, 0), |(bytes, rows), b| (bytes + batch_bytes(b), rows + b.num_rows()));
            let (schema, is_exact) = (self.schema.clone(), self.encoder.is_exact());
            let sources = Sources::new(&self.encoder, schema, batches(), is_exact);
            let at_once = batch_rows(bytes.div_ceil(rows.max(1)));
            let mut left = &keys[..];
            while !left.is_empty() {
                let batch = sources.gather(&left[..left.len().min(at_once)])?;
                left = &left[batch.num_rows()..];
                self.put(batch, ports)?;
            }
        }
    }
}

impl Instance {
    fn head(&self, input: usize) -> InputHead {
        let keys = EncodedKeys { packed: vec![], rows: None };
        let batch = RecordBatch::new_empty(self.schema.clone());
        let waiting = VecDeque::new();
        InputHead { input, batch, keys, used: 0, waiting, before: 0, is_over: false }
    }

    /// Takes the next batch of an input whose current one is used up.
    fn refill(&self, head: &mut InputHead, ports: &mut Ports) -> Result<()> {
        while head.used == head.batch.num_rows() && !head.is_over {
            let Some(batch) = head.waiting.pop_front() else {
                match ports.get_in_runs(head.input)? {
                    Taken::Batch(parcel) => {
                        let batch = conform(parcel.batch, &self.schema)?;
                        let parts = split_batch(batch).filter(|part| part.num_rows() > 0);
                        head.waiting.extend(parts);
                    }
                    Taken::End => head.is_over = true,
                    Taken::RunEnd(_) | Taken::Empty => {}
                }
                continue;
            };
            head.before += head.batch.num_rows();
            let keys = self.encoder.encode(&batch, head.input)?;
            self.check(head, &keys)?;
            (head.batch, head.keys, head.used) = (batch, keys, 0);
        }
        Ok(())
    }

    /// Fails unless the next batch of an input is sorted, and follows the one before it.
    fn check(&self, head: &InputHead, keys: &EncodedKeys) -> Result<()> {
        let Some(first) = keys.packed.first() else { return Ok(()) };
        // Numbered like two batches of one sort.
        let rows = |number: usize| [&head.keys, keys][number].rows.as_ref();
        let numbered = |packed: u128, batch| self.encoder.with_batch(packed, batch);
        let last = head.keys.packed.last().map(|last| numbered(*last, 0));
        let breaks = |last: u128| self.encoder.compare((numbered(*first, 1), last), rows).is_lt();
        let wrong = match last.is_some_and(breaks) {
            true => Some(0),
            false => {
                let rows = |_| keys.rows.as_ref();
                let falls = |pair: &[u128]| self.encoder.compare((pair[0], pair[1]), rows).is_gt();
                keys.packed.windows(2).position(falls).map(|at| at + 1)
            }
        };
        if let Some(row) = wrong {
            let (input, row) = (head.input, head.before + row);
            let message = format!(
                "input {input} is not sorted by {}: row {row} belongs before the one it follows",
                self.by
            );
            return Err(Error::usage(message).remedy("place a `sort` before it"));
        }
        Ok(())
    }

    /// The keys of the records to put in this round, in order; `None` at the end. Later records of
    /// an input may be equal to its last key, and precede those of later inputs.
    fn round(&self, heads: &mut [InputHead]) -> Option<Vec<u128>> {
        let all: Vec<Option<&Rows>> = heads.iter().map(|head| head.keys.rows.as_ref()).collect();
        let rows = |input: usize| all[input];
        let lasts = heads.iter().filter(|head| head.used < head.batch.num_rows());
        let lasts = lasts.map(|head| (head.input, *head.keys.packed.last().expect("it has rows")));
        let (least, bound) = lasts.min_by(|a, b| self.encoder.compare((a.1, b.1), rows))?;
        let mut keys = vec![];
        let ends: Vec<usize> = heads
            .iter()
            .map(|head| {
                let goes = |key: &u128| match self.encoder.compare((*key, bound), rows) {
                    Ordering::Less => true,
                    Ordering::Equal => head.input <= least,
                    Ordering::Greater => false,
                };
                let left = &head.keys.packed[head.used..];
                let end = left.partition_point(goes);
                keys.extend_from_slice(&left[..end]);
                head.used + end
            })
            .collect();
        sort_keys(&self.encoder, &mut keys, rows, Presorted::Runs);
        heads.iter_mut().zip(ends).for_each(|(head, end)| head.used = end);
        Some(keys)
    }

    fn put(&mut self, batch: RecordBatch, ports: &mut Ports) -> Result<()> {
        if self.run.bytes == 0 {
            ports.begin_run(0, self.run.number)?;
        }
        self.run.bytes += batch_bytes(&batch).max(1);
        ports.put(0, batch)?;
        if self.run.bytes >= RANGE_BYTES_MAX { self.end_run(ports) } else { Ok(()) }
    }

    fn end_run(&mut self, ports: &mut Ports) -> Result<()> {
        if self.run.bytes > 0 {
            ports.end_run(0)?;
            self.run = OutputRun { number: self.run.number + 1, bytes: 0 };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, integers, rows};
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use proptest::prelude::*;
    use serde_json::json;

    fn merge(by: &str, inputs: &[Vec<RecordBatch>]) -> (Vec<Item>, Result<()>) {
        let harness = Harness::new(&MODULE, json!({"by": [by]}));
        let schema = inputs.iter().flatten().next().map_or(integers([]).schema(), |b| b.schema());
        let harness = inputs.iter().fold(harness, |harness, batches| {
            harness.stream(schema.clone(), std::slice::from_ref(batches))
        });
        let (mut outputs, outcome) = harness.run();
        (outputs.pop().unwrap_or_default(), outcome)
    }

    /// Keys that need a row encoding, with the place they come from.
    fn texts(keys: &[String], input: usize) -> Vec<RecordBatch> {
        let text = Arc::new(Field::new("key", DataType::Utf8, true));
        let place = Arc::new(Field::new("place", DataType::Int64, false));
        let schema = Arc::new(Schema::new(vec![text, place]));
        let batch = |(number, keys): (usize, &[String])| {
            let places = (0..keys.len()).map(|row| (input * 1000 + number * 3 + row) as i64);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from_iter_values(keys)),
                Arc::new(Int64Array::from_iter_values(places)),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        };
        keys.chunks(3).enumerate().map(batch).collect()
    }

    proptest! {
        #[test]
        fn merge_is_sorted_and_stable_across_inputs(
            inputs in prop::collection::vec(
                prop::collection::vec("[ab]{0,2}|[ab]{14,15}", 1..20), 1..7),
        ) {
            let mut inputs: Vec<Vec<String>> = inputs;
            inputs.iter_mut().for_each(|keys| keys.sort());
            let batches = inputs.iter().enumerate().map(|(at, one)| texts(one, at));
            let batches: Vec<_> = batches.collect();
            let (items, outcome) = merge("key", &batches);
            outcome.unwrap();
            let all = rows(&items, batches[0][0].schema());
            let keys = all.column(0).as_string::<i32>().iter().map(|key| key.unwrap().to_string());
            let places = all.column(1).as_primitive::<Int64Type>().values().iter().copied();
            let merged: Vec<(String, i64)> = keys.zip(places).collect();
            let mut expected: Vec<(String, i64)> = vec![];
            for (at, keys) in inputs.iter().enumerate() {
                let placed = keys.iter().cloned().zip((at * 1000) as i64..);
                expected.extend(placed);
            }
            expected.sort();
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn empty_inputs_give_empty_output() {
        let (items, outcome) = merge("n", &[vec![], vec![integers([])], vec![]]);
        outcome.unwrap();
        assert!(items.is_empty());
    }

    #[test]
    fn unsorted_input_is_named() {
        let sorted = vec![integers([1, 4])];
        for (wrong, by, row) in [
            (vec![integers([1, 3, 2])], "n", 2),
            (vec![integers([1, 3]), integers([]), integers([2])], "n", 2),
            (vec![integers([3]), integers([4, 4])], "n desc", 1),
        ] {
            let (_, outcome) = merge(by, &[wrong, if by == "n" { sorted.clone() } else { vec![] }]);
            let error = outcome.unwrap_err().to_string();
            let expected = format!("input 0 is not sorted by {by}: row {row} belongs before");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn long_streams_go_out_in_runs() {
        let batches: Vec<_> = (0..80).map(|at| integers(at * 65536..(at + 1) * 65536)).collect();
        let (items, outcome) = merge("n", &[batches, vec![]]);
        outcome.unwrap();
        let begun = items.iter().filter(|item| matches!(item, Item::Begin(_))).count();
        assert_eq!(begun, 3);
        assert!(matches!(items.last(), Some(Item::End(2))));
    }
}
