//! Samples rows at random: a fraction of them, or a fixed number.
//!
//! Every row has a key, a hash of the seed, its run (or instance) and its number there. A fraction
//! is the rows with keys below a bound; a fixed number is the rows with the smallest keys. So
//! instances sample independently, and the same rows of a stream are picked every time.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{BooleanArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::record_batch::RecordBatch;
use euphrates_flow::module::{Bound, Configure, Inputs, OutputOrder, PlacementConstraint};
use euphrates_flow::{
    Error, InputOrder, Module, ModuleSpec, Ports, Result, RunIndex, Setup, Taken, spec, split_batch,
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batches::coalescer::Coalescer;
use crate::batches::run_preserving::{RunStep, process_in_runs};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "sample",
    summary: "Picks rows at random: a fraction of them, or a number.",
    detail: "With `fraction`, every row passes with this probability, and the order of a stream is \
             kept. With `rows`, that number of rows is picked, each with the same probability; \
             they are held in memory until the input has ended. The same seed picks the same rows \
             of a stream.",
    example: r#">>> flow = eu.Flow()
>>> _ = flow.chain(eu.generate("integers", rows=1000), eu.sample(rows=10), eu.collect())
>>> flow.go().collected().num_rows
10"#,
    order: InputOrder::Keeps,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        Ok(Arc::new(Sample { choice: config.choice()?, seed: config.seed, kept: Mutex::default() }))
    },
    ..ModuleSpec::USUAL
};

/// How many rows: give `fraction` or `rows`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The probability of a row to be picked, from 0 to 1.
    pub(crate) fraction: Option<f64>,
    /// The number of rows to pick; all, if there are fewer.
    pub(crate) rows: Option<usize>,
    /// Another seed picks other rows.
    #[serde(default)]
    pub(crate) seed: u64,
}

#[derive(Clone, Copy)]
enum SampleChoice {
    Fraction(f64),
    Rows(usize),
}

impl Config {
    fn choice(&self) -> Result<SampleChoice> {
        match (self.fraction, self.rows) {
            (Some(fraction), None) if (0.0..=1.0).contains(&fraction) => {
                Ok(SampleChoice::Fraction(fraction))
            }
            (Some(fraction), None) => Err(Error::usage(format!("`fraction` is {fraction}"))
                .remedy("give a number from 0 to 1, like 0.01")),
            (None, Some(rows)) => Ok(SampleChoice::Rows(rows)),
            _ => Err(Error::usage("give either `fraction` or `rows`")),
        }
    }
}

struct Sample {
    choice: SampleChoice,
    seed: u64,
    /// The rows kept by finished instances, and the number of these.
    kept: Mutex<(Reservoir, usize)>,
}

impl Configure for Sample {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let (order, spread) = match self.choice {
            SampleChoice::Fraction(_) => (OutputOrder::OfInput, PlacementConstraint::Anywhere),
            SampleChoice::Rows(_) => (OutputOrder::None, PlacementConstraint::Together),
        };
        let instance = move |setup: &Setup| -> Result<Box<dyn Module>> {
            let keys = RunKeys::new(self.seed, setup.instance);
            let (sample, instances) = (self.clone(), setup.instances);
            Ok(match self.choice {
                SampleChoice::Fraction(fraction) => {
                    Box::new(move |ports: &mut Ports| pick_fraction(ports, keys.clone(), fraction))
                }
                SampleChoice::Rows(rows) => Box::new(move |ports: &mut Ports| {
                    sample.pick_rows(ports, keys.clone(), rows, instances)
                }),
            })
        };
        let bytes_expected = inputs.bytes[0];
        let bound = Bound::new([inputs.schemas[0].clone()], instance);
        Ok(Bound { order, spread, bytes_expected, ..bound })
    }
}

fn pick_fraction(ports: &mut Ports, mut keys: RunKeys, fraction: f64) -> Result<()> {
    let bound = (fraction * 2f64.powi(64)) as u128;
    let mut coalescer = Coalescer::default();
    process_in_runs(ports, |ports, step| {
        match step {
            RunStep::Batch(batch, run) => {
                keys.enter(run);
                let pick = |_| u128::from(keys.next()) < bound;
                let picks = BooleanBuffer::collect_bool(batch.num_rows(), pick);
                let picked = filter_record_batch(&batch, &BooleanArray::new(picks, None))?;
                coalescer.put(ports, picked)?;
            }
            RunStep::End => coalescer.flush(ports)?,
        }
        Ok(ControlFlow::Continue(()))
    })
}

impl Sample {
    fn pick_rows(
        &self,
        ports: &mut Ports,
        mut keys: RunKeys,
        rows: usize,
        instances: usize,
    ) -> Result<()> {
        let mut kept = Reservoir::default();
        loop {
            match ports.get_in_runs(0)? {
                Taken::Batch(parcel) => {
                    keys.enter(parcel.run);
                    kept.offer(&parcel.batch, &mut keys, rows)?;
                }
                Taken::RunEnd(_) | Taken::Empty => {}
                Taken::End => break,
            }
        }
        kept.shrink(rows)?;
        // The last instance to finish puts the rows of all.
        let all = {
            let mut all = self.kept.lock();
            all.0.keys.append(&mut kept.keys);
            all.0.batches.append(&mut kept.batches);
            all.1 += 1;
            (all.1 == instances).then(|| std::mem::take(&mut all.0))
        };
        let Some(mut all) = all else { return Ok(()) };
        all.shrink(rows)?;
        let mut batches = all.batches.into_iter().flat_map(split_batch);
        batches.try_for_each(|batch| ports.put(0, batch))
    }
}

/// The rows with the smallest keys so far.
#[derive(Default)]
struct Reservoir {
    keys: Vec<u64>,
    batches: Vec<RecordBatch>,
    /// Rows with keys from here on are not needed; set once the wanted number of rows has been
    /// seen.
    bound: Option<u64>,
}

impl Reservoir {
    /// Adds the rows that may be among the `wanted` ones.
    fn offer(&mut self, batch: &RecordBatch, keys: &mut RunKeys, wanted: usize) -> Result<()> {
        let before = self.keys.len();
        let mut rows: Vec<u32> = vec![];
        for row in 0..batch.num_rows() {
            let key = keys.next();
            if self.bound.is_none_or(|bound| key < bound) {
                self.keys.push(key);
                rows.push(row as u32);
            }
        }
        if self.keys.len() == before {
            return Ok(());
        }
        self.batches.push(take_record_batch(batch, &UInt32Array::from(rows))?);
        // Often enough to bound the memory, rarely enough to be cheap.
        if self.keys.len() < wanted.saturating_mul(2).max(1024) && self.batches.len() < 4096 {
            return Ok(());
        }
        self.shrink(wanted)
    }

    /// Keeps the rows with the smallest keys.
    fn shrink(&mut self, wanted: usize) -> Result<()> {
        let Some(first) = self.batches.first() else { return Ok(()) };
        let whole = concat_batches(first.schema_ref(), &self.batches)?;
        let mut rows: Vec<u32> = (0..whole.num_rows() as u32).collect();
        if rows.len() > wanted {
            rows.select_nth_unstable_by_key(wanted, |row| self.keys[*row as usize]);
            self.bound = Some(self.keys[rows[wanted] as usize]);
            rows.truncate(wanted);
            rows.sort_unstable();
        }
        self.keys = rows.iter().map(|row| self.keys[*row as usize]).collect();
        self.batches = vec![take_record_batch(&whole, &UInt32Array::from(rows))?];
        Ok(())
    }
}

/// Keys of rows, in the order of their run. Batches without runs count as one run for each
/// instance.
#[derive(Clone)]
struct RunKeys {
    seed: u64,
    run: Option<RunIndex>,
    state: u64,
}

impl RunKeys {
    fn new(seed: u64, instance: usize) -> RunKeys {
        let state = mix(mix(seed) ^ mix(!(instance as u64)));
        RunKeys { seed, run: None, state }
    }

    /// The next rows belong to this run.
    fn enter(&mut self, run: Option<RunIndex>) {
        if let Some(run) = run.filter(|_| run != self.run) {
            self.run = Some(run);
            self.state = mix(mix(self.seed) ^ run);
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }
}

/// The finalizer of splitmix64.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Item, integers, rows};
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn sampled(config: Value, input: &[RecordBatch]) -> Vec<i64> {
        let (outputs, outcome) =
            Harness::new(&MODULE, config).input(input[0].schema(), input).run();
        outcome.unwrap();
        let all = rows(&outputs[0], input[0].schema());
        all.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn a_fraction_of_the_rows_passes_in_order() {
        let input: Vec<_> = (0..100).map(|at| integers(at * 1000..(at + 1) * 1000)).collect();
        for (fraction, seed) in [(0.01f64, 1), (0.5, 2), (0.9, 3)] {
            let picked = sampled(json!({"fraction": fraction, "seed": seed}), &input);
            let expected = 100_000.0 * fraction;
            let sigma = (expected * (1.0 - fraction)).sqrt();
            let off = (picked.len() as f64 - expected).abs();
            assert!(off < 5.0 * sigma, "{fraction}: {} rows", picked.len());
            assert!(picked.is_sorted());
            assert_eq!(picked, sampled(json!({"fraction": fraction, "seed": seed}), &input));
        }
        assert_eq!(sampled(json!({"fraction": 0.0}), &input).len(), 0);
        assert_eq!(sampled(json!({"fraction": 1.0}), &input).len(), 100_000);
        let other = |seed| sampled(json!({"fraction": 0.5, "seed": seed}), &input);
        assert_ne!(other(1), other(2));
    }

    #[test]
    fn sample_of_stream_depends_only_on_runs() {
        let whole = [vec![integers(0..50), integers(50..100)], vec![integers(100..200)]];
        let apart = [whole[0].clone(), vec![integers(100..101), integers(101..200)]];
        let picked = |runs: &[Vec<RecordBatch>]| {
            let harness = Harness::new(&MODULE, json!({"fraction": 0.3}));
            let (outputs, outcome) = harness.stream(integers([]).schema(), runs).run();
            outcome.unwrap();
            let ends = outputs[0].iter().filter(|item| matches!(item, Item::End(_)));
            assert_eq!(ends.count(), 2);
            rows(&outputs[0], integers([]).schema())
        };
        assert_eq!(picked(&whole), picked(&apart));
    }

    #[test]
    fn sampling_is_uniform() {
        let input: Vec<_> = (0..50).map(|at| integers(at * 10..(at + 1) * 10)).collect();
        let mut times = vec![0; 500];
        for seed in 0..1000 {
            let picked = sampled(json!({"rows": 50, "seed": seed}), &input);
            assert_eq!(picked.len(), 50);
            picked.iter().for_each(|row| times[*row as usize] += 1);
        }
        // 100 each are expected, with a standard deviation of 9.5.
        assert!(times.iter().all(|times| (50..150).contains(times)), "{times:?}");
    }

    proptest! {
        #[test]
        fn exact_number_of_distinct_rows_is_sampled(
            batches in proptest::collection::vec(1i64..3000, 1..12),
            wanted in 0usize..4000,
            seed: u64,
        ) {
            let mut first = 0;
            let input: Vec<_> = batches
                .iter()
                .map(|rows| {
                    first += rows;
                    integers(first - rows..first)
                })
                .collect();
            let mut picked = sampled(json!({"rows": wanted, "seed": seed}), &input);
            prop_assert_eq!(picked.len(), wanted.min(first as usize));
            picked.sort_unstable();
            picked.dedup();
            prop_assert_eq!(picked.len(), wanted.min(first as usize));
            prop_assert!(picked.iter().all(|row| (0..first).contains(row)));
        }
    }

    #[test]
    fn exactly_one_of_fraction_and_rows_is_required() {
        for config in [json!({}), json!({"rows": 1, "fraction": 0.5}), json!({"fraction": 1.5})] {
            assert!((MODULE.configure)(config).is_err());
        }
    }
}
