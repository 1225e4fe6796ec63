//! Flows that write collections and read them back.

use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use euphrates_engine::{Options, Report, go};
use euphrates_flow::{Document, Kind, Result};
use euphrates_modules::registry;
use euphrates_store::catalog::Catalog;
use euphrates_store::collection::{Collection, verify};
use serde_json::{Value, json};

fn run(home: &Path, steps: &[(&str, Value)]) -> Result<Report> {
    let mut document = Document::new("test");
    let ids: Vec<String> =
        steps.iter().map(|(module, config)| document.place(module, config.clone(), None)).collect();
    for pair in ids.windows(2) {
        document.attach(&pair[0], &pair[1]);
    }
    let options = Options { cores: Some(3), home: Some(home.into()), ..Options::default() };
    go(&document, &registry(), &options)
}

fn collected(report: &Report) -> RecordBatch {
    let collected = report.collected.values().next().expect("a collect");
    concat_batches(&collected.schema, &collected.batches).unwrap()
}

fn numbers(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn collections_read_back_unordered_and_in_order() {
    let home = tempfile::tempdir().unwrap();
    const ROWS: i64 = 3_000_000;
    for (order, compression) in [(false, "none"), (true, "none"), (true, "lz4"), (false, "zstd")] {
        let name = format!("numbers/{order}-{compression}");
        let make = ("generate", json!({"what": "integers", "rows": ROWS, "order": order}));
        let write = ("write", json!({"collection": name, "compression": compression}));
        run(home.path(), &[make, write]).unwrap();
        let manifest = Catalog::of(home.path()).unwrap().newest_readable(&name).unwrap();
        assert_eq!((manifest.rows, manifest.ordered), (ROWS as u64, order));
        assert_eq!(manifest.statistics["n"].max, json!(ROWS - 1));
        assert_eq!(manifest.segments.len() == 1, order);
        assert_eq!(verify(home.path(), &name).unwrap().damages, vec![]);
        let read = ("read", json!({"collection": name, "order": order}));
        let mut read =
            numbers(&collected(&run(home.path(), &[read, ("collect", json!({}))]).unwrap()));
        if !order {
            read.sort_unstable();
        }
        assert!(read.into_iter().eq(0..ROWS), "{name}");
    }
}

#[test]
fn columns_are_selected_and_small_batches_coalesced() {
    let home = tempfile::tempdir().unwrap();
    let table = ("generate", json!({"what": "orders", "scale": 0.01}));
    run(home.path(), &[table, ("write", json!({"collection": "orders"}))]).unwrap();
    let collection = Collection::open(home.path(), "orders").unwrap();
    let blocks: usize = collection.blocks();
    assert!(blocks <= 4, "{blocks} blocks for 2 MB");
    let columns = json!({"collection": "orders", "columns": ["o_totalprice", "o_orderkey"]});
    let report = run(home.path(), &[("read", columns), ("collect", json!({}))]).unwrap();
    let batch = collected(&report);
    assert_eq!((batch.num_rows(), batch.num_columns()), (15_000, 2));
    assert_eq!(batch.schema().field(1).name(), "o_orderkey");
    let wrong = json!({"collection": "orders", "columns": ["o_orderkye"]});
    let error = run(home.path(), &[("read", wrong), ("collect", json!({}))]).unwrap_err();
    assert!(error.to_string().contains("did you mean `o_orderkey`?"), "{error}");
}

#[test]
fn a_flow_may_replace_what_it_reads() {
    let home = tempfile::tempdir().unwrap();
    let make = ("generate", json!({"what": "integers", "rows": 500_000, "order": true}));
    run(home.path(), &[make.clone(), ("write", json!({"collection": "a"}))]).unwrap();
    let read = ("read", json!({"collection": "a", "order": true}));
    let replace = ("write", json!({"collection": "a", "overwrite": true}));
    run(home.path(), &[read.clone(), replace]).unwrap();
    let read = collected(&run(home.path(), &[read, ("collect", json!({}))]).unwrap());
    assert!(numbers(&read).into_iter().eq(0..500_000));
    let error = run(home.path(), &[make, ("write", json!({"collection": "a"}))]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

#[test]
fn a_failed_flow_leaves_the_old_version_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let make = ("generate", json!({"what": "integers", "rows": 300_000}));
    let replace = ("write", json!({"collection": "a", "overwrite": true}));
    run(home.path(), &[make.clone(), replace.clone()]).unwrap();
    let fails = ("filter", json!({"where": "1 / (n - 299999) > 5"}));
    assert!(run(home.path(), &[make, fails, replace]).is_err());
    let manifest = Catalog::of(home.path()).unwrap().newest_readable("a").unwrap();
    assert_eq!((manifest.version, manifest.rows), (1, 300_000));
    let staging = home.path().join("data/.staging");
    assert_eq!(std::fs::read_dir(staging).unwrap().count(), 0);
}

/// Name, steps before the `write`, and the sort keys expected in the catalog, if it is a stream.
type Kept<'a> = (&'a str, Vec<(&'a str, Value)>, Option<&'a [&'a str]>);

#[test]
fn catalog_records_sort_keys() {
    let home = tempfile::tempdir().unwrap();
    let make = ("generate", json!({"what": "integers", "rows": 1000}));
    let key = json!({"column": "n", "descending": true});
    let read = ("read", json!({"collection": "sorted", "order": true}));
    let unordered = ("read", json!({"collection": "sorted"}));
    let filter = ("filter", json!({"where": "n > 3"}));
    let project = ("project", json!({"columns": ["-n as n"]}));
    let flows: Vec<Kept> = vec![
        ("sorted", vec![make.clone(), ("sort", json!({"by": [key]}))], Some(&["n desc"])),
        ("kept", vec![read.clone(), filter], Some(&["n desc"])),
        ("changed", vec![read, project], Some(&[])),
        ("shuffled", vec![unordered], None),
        ("made", vec![make], None),
    ];
    for (name, mut steps, keys) in flows {
        steps.push(("write", json!({"collection": name})));
        run(home.path(), &steps).unwrap();
        let manifest = Catalog::of(home.path()).unwrap().newest_readable(name).unwrap();
        assert_eq!(manifest.ordered, keys.is_some(), "{name}");
        assert_eq!(manifest.sort_keys, keys.unwrap_or_default(), "{name}");
    }
}

#[test]
fn an_empty_input_makes_an_empty_collection() {
    let home = tempfile::tempdir().unwrap();
    for order in [false, true] {
        let make = ("generate", json!({"what": "integers", "rows": 0, "order": order}));
        let write = ("write", json!({"collection": "none", "overwrite": true}));
        run(home.path(), &[make, write]).unwrap();
        let read = ("read", json!({"collection": "none", "order": order}));
        let read = collected(&run(home.path(), &[read, ("collect", json!({}))]).unwrap());
        assert_eq!((read.num_rows(), read.num_columns()), (0, 1));
    }
}

#[test]
fn missing_collection_is_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let read = ("read", json!({"collection": "nothing"}));
    let error = run(home.path(), &[read, ("collect", json!({}))]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let write = ("write", json!({"collection": "../x"}));
    let make = ("generate", json!({"what": "integers", "rows": 1}));
    assert_eq!(run(home.path(), &[make, write]).unwrap_err().kind(), Kind::Usage);
}
