//! Flows of the small modules: order, early ends, forks and joins of the graph.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use euphrates_engine::{Options, go};
use euphrates_flow::document::Port;
use euphrates_flow::spec::PortNames;
use euphrates_flow::{
    Bound, Configure, Document, Inputs, Kind, Module, ModuleSpec, Ports, Result, Setup,
};
use euphrates_modules::registry;
use serde_json::{Value, json};

/// Runs a flow of these modules, with queues between the given positions.
fn run(modules: &[(&str, Value)], queues: &[(usize, usize)]) -> Result<Vec<Vec<i64>>> {
    let mut document = Document::new("test");
    let ids: Vec<String> = modules
        .iter()
        .map(|(module, config)| document.place(module, config.clone(), None))
        .collect();
    queues.iter().for_each(|(from, to)| {
        document.attach(&ids[*from], &ids[*to]);
    });
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        memory_bytes: Some(256 << 20),
        cores: Some(3),
        home: Some(folder.path().into()),
        ..Options::default()
    };
    let report = go(&document, &registry(), &options)?;
    let numbers = |batch: &arrow::record_batch::RecordBatch| {
        batch.column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    let kept = ids.iter().filter_map(|id| report.collected.get(id));
    Ok(kept.map(|kept| kept.batches.iter().flat_map(numbers).collect()).collect())
}

fn line(modules: &[(&str, Value)]) -> Result<Vec<i64>> {
    let queues: Vec<_> = (1..modules.len()).map(|at| (at - 1, at)).collect();
    Ok(run(modules, &queues)?.remove(0))
}

fn integers(rows: u64) -> (&'static str, Value) {
    ("generate", json!({"what": "integers", "rows": rows, "order": true}))
}

const ROWS: u64 = 1_000_000;

#[test]
fn order_survives_modules_with_several_instances() {
    let kept = line(&[
        integers(ROWS),
        ("filter", json!({"where": "n % 3 = 0 and n > 300000"})),
        ("project", json!({"columns": ["n / 3 as third"]})),
        ("filter", json!({"where": "third <> 200000"})),
        ("collect", json!({})),
    ]);
    let expected: Vec<i64> = (100_001..=333_333).filter(|n| *n != 200_000).collect();
    assert_eq!(kept.unwrap(), expected);
}

#[test]
fn a_sample_of_a_stream_is_the_same_every_time_and_in_order() {
    let sample = || {
        let modules =
            [integers(ROWS), ("sample", json!({"fraction": 0.01})), ("collect", json!({}))];
        line(&modules).unwrap()
    };
    let first = sample();
    assert!(first.is_sorted() && (9_000..11_000).contains(&first.len()), "{}", first.len());
    assert_eq!(first, sample());
    let modules = [integers(ROWS), ("sample", json!({"rows": 500})), ("collect", json!({}))];
    assert_eq!(line(&modules).unwrap().len(), 500);
}

#[test]
fn limit_ends_endless_producers() {
    for order in [true, false] {
        let endless = json!({"what": "integers", "rows": 1u64 << 50, "order": order});
        let modules = [
            ("generate", endless),
            ("filter", json!({"where": "n >= 0"})),
            ("limit", json!({"rows": 100_000, "offset": 70_000})),
            ("collect", json!({})),
        ];
        let kept = line(&modules).unwrap();
        assert_eq!(kept.len(), 100_000);
        assert!(!order || kept.iter().copied().eq(70_000..170_000));
    }
}

#[test]
fn forked_streams_can_be_united() {
    let modules = [
        integers(ROWS),
        ("tee", json!({})),
        ("filter", json!({"where": "n < 250000"})),
        ("filter", json!({"where": "n >= 250000"})),
        ("union", json!({})),
        ("collect", json!({})),
    ];
    let queues = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)];
    let mut kept = run(&modules, &queues).unwrap().remove(0);
    kept.sort_unstable();
    assert!(kept.into_iter().eq(0..ROWS as i64));
}

#[test]
fn branch_that_ends_early_leaves_other_complete() {
    let modules = [
        integers(ROWS),
        ("tee", json!({})),
        ("limit", json!({"rows": 10})),
        ("collect", json!({})),
        ("collect", json!({})),
    ];
    let kept = run(&modules, &[(0, 1), (1, 2), (2, 3), (1, 4)]).unwrap();
    assert!(kept[0].iter().copied().eq(0..10));
    assert!(kept[1].iter().copied().eq(0..ROWS as i64));
}

#[test]
fn programs_are_modules() {
    let kept = line(&[
        integers(200_000),
        ("exec", json!({"command": "sort -rn", "header": false, "order": true})),
        ("limit", json!({"rows": 5})),
        ("collect", json!({})),
    ]);
    assert_eq!(kept.unwrap(), [199_999, 199_998, 199_997, 199_996, 199_995]);
    let error = line(&[
        integers(200_000),
        ("exec", json!({"command": "head -n 5; exit 3"})),
        ("collect", json!({})),
    ]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    assert!(error.to_string().contains("exited with status 3"), "{error}");
    // A program that never ends is killed when another module fails.
    let error = line(&[
        integers(200_000),
        ("exec", json!({"command": "cat; sleep 1000"})),
        ("filter", json!({"where": "1 / (n - 150000) = 7"})),
        ("collect", json!({})),
    ]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("filter") && error.contains("ivide by zero"), "{error}");
}

/// Reads its first input to the end before the second.
static ONE_AFTER_THE_OTHER: ModuleSpec = ModuleSpec {
    name: "one_after_the_other",
    summary: "Reads one input after the other.",
    detail: "",
    inputs: PortNames::Fixed(&["first", "second"]),
    parallel: false,
    config_schema: || json!({}),
    configure: |_| Ok(Arc::new(OneAfterTheOther)),
    ..ModuleSpec::USUAL
};

struct OneAfterTheOther;

impl Configure for OneAfterTheOther {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let instance = |_: &Setup| -> Result<Box<dyn Module>> {
            Ok(Box::new(|ports: &mut Ports| {
                (0..2).try_for_each(|input| {
                    while let Some(batch) = ports.get(input)? {
                        ports.put(0, batch)?;
                    }
                    Ok(())
                })
            }))
        };
        Ok(Bound::new([inputs.schemas[0].clone()], instance))
    }
}

#[test]
fn deadlocked_branches_are_named() {
    let registry = registry().with([&ONE_AFTER_THE_OTHER]);
    let mut document = Document::new("locked");
    let source = document.place("generate", json!({"what": "integers", "rows": 20 * ROWS}), None);
    let tee = document.place("tee", json!({}), None);
    let both = document.place("one_after_the_other", json!({}), None);
    let count = document.place("count", json!({}), None);
    let collect = document.place("collect", json!({}), None);
    for (from, to) in [(&source, &tee), (&both, &count), (&count, &collect)] {
        document.attach(from, to);
    }
    for input in 0..2 {
        document.attach(&tee, &both).input = Some(Port::Position(input));
    }
    let error = go(&document, &registry, &Options::default()).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("stands still") && text.contains("tee_1 waits for room"), "{text}");
}
