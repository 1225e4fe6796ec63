//! Flows that read a part of a collection: a filter behind `read` leaves out blocks, and nothing
//! else changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_engine::cluster::static_driver::StaticDriver;
use euphrates_engine::cluster::{
    Address, Cluster, Secret, Security, WorkerProperties, WorkerServer, WorkerSettings,
};
use euphrates_engine::{Options, Report, go};
use euphrates_flow::check::check;
use euphrates_flow::{Cancel, Document, Kind, Result};
use euphrates_modules::registry;
use euphrates_store::collection::*;
use serde_json::{Value, json};

/// Rows of the collections of numbers, which have more than twenty blocks.
const ROWS: i64 = 3_000_000;

fn run(steps: &[(&str, Value)], options: &Options) -> Result<Report> {
    let mut document = Document::new("test");
    let ids: Vec<String> =
        steps.iter().map(|(module, config)| document.place(module, config.clone(), None)).collect();
    for pair in ids.windows(2) {
        document.attach(&pair[0], &pair[1]);
    }
    go(&document, &registry(), options)
}

fn options(home: &Path, cores: usize) -> Options {
    Options { cores: Some(cores), home: Some(home.into()), ..Options::default() }
}

fn collected(report: &Report) -> RecordBatch {
    let collected = report.collected.values().next().expect("a collect");
    concat_batches(&collected.schema, &collected.batches).unwrap()
}

fn remark(report: &Report) -> String {
    let found = report.modules.iter().find(|one| one.module == "read");
    found.and_then(|module| module.remark.clone()).unwrap_or_default()
}

/// How many blocks were skipped of how many, by the report.
fn skipped(report: &Report) -> (usize, usize) {
    let told = remark(report);
    let Some((_, told)) = told.split_once("skipped ") else { return (0, 0) };
    let mut words = told.split(' ');
    let mut number = |nth| words.nth(nth).and_then(|word| word.parse().ok()).expect("a number");
    (number(0), number(1))
}

/// The numbers that pass a filter directly behind `read`, and the report.
fn read(read: Value, condition: &str, options: &Options) -> Result<(Vec<i64>, Report)> {
    let filter = ("filter", json!({"where": condition}));
    let report = run(&[("read", read), filter, ("collect", json!({}))], options)?;
    let numbers = collected(&report).column(0).as_primitive::<Int64Type>().values().to_vec();
    Ok((numbers, report))
}

fn name_disks(home: &Path, disks: usize) {
    let disks = (0..disks).map(|at| NamedDisk {
        name: format!("d{at}"),
        folder: home.join(format!("disk{at}")),
        mode: Default::default(),
        rate: None,
        worker: format!("w{at}"),
    });
    save_named_disks(home, &disks.collect::<Vec<_>>()).unwrap();
}

fn names(disks: usize) -> Vec<String> {
    (0..disks).map(|at| format!("d{at}")).collect()
}

fn write_numbers(home: &Path, write: Value) {
    let make = json!({"what": "integers", "rows": ROWS, "order": true});
    run(&[("generate", make), ("write", write)], &options(home, 2)).unwrap();
}

/// Ten blocks of a hundred rows, of which each has its own values. The third is all null, the
/// fourth is empty, and some have NaN.
fn write_mixed(home: &Path) {
    let block = |at: i64| {
        let numbers = if at == 3 { 0..0 } else { at * 100..at * 100 + 100 };
        let some = |n: &i64| at != 2 && n % 9 != 0;
        let float = |n: i64| if at % 2 == 0 && n % 10 == 0 { f64::NAN } else { n as f64 / 10.0 };
        let text = |n: i64| format!("{}{n:04}", "ü€".repeat(if at == 5 { 20 } else { 0 }));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
            (
                "i",
                Arc::new(Int32Array::from_iter(
                    numbers.clone().map(|n| some(&n).then_some(n as i32)),
                )),
            ),
            (
                "x",
                Arc::new(Float64Array::from_iter(
                    numbers.clone().map(|n| some(&n).then(|| float(n))),
                )),
            ),
            (
                "s",
                Arc::new(StringArray::from_iter(
                    numbers.clone().map(|n| some(&n).then(|| text(n))),
                )),
            ),
            (
                "day",
                Arc::new(Date32Array::from_iter(numbers.clone().map(|_| Some(20_000 + at as i32)))),
            ),
        ];
        let columns = columns.into_iter().map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let create = CreateOptions { run_id: "run".into(), ..CreateOptions::default() };
    let new = NewCollection::create(home, "mixed", &block(0).schema(), create).unwrap();
    let segment = new.begin_segment().unwrap();
    let mut encoder = segment.encoder().unwrap();
    for at in 0..10 {
        segment.append(None, &encoder.encode(&block(at)).unwrap(), &Cancel::default()).unwrap();
    }
    new.add(segment).unwrap();
    new.commit(Some(vec![])).unwrap();
}

#[test]
fn filter_that_is_pushed_keeps_the_rows_of_one_that_is_not() {
    let home = tempfile::tempdir().unwrap();
    write_mixed(home.path());
    // Each with the number of blocks that are skipped.
    let conditions = [
        ("i = 457", 9),
        ("i < 100", 9),
        ("i >= 700", 7),
        ("x < 9.5", 9),
        ("x > 85", 2),
        ("x between 12 and 25", 9),
        ("not x <= 40", 2),
        ("s = '0457'", 9),
        ("s like 'ü%'", 9),
        ("s >= 'ü'", 9),
        ("i is null", 1),
        ("i is not null", 2),
        ("i is null and n > 500", 5),
        ("day = date '2024-10-08'", 9),
        ("i in (1, 902)", 8),
        ("i + 1 = 5", 0),
        ("i = 8 or x > 99.5", 2),
        ("n = 5000", 10),
    ];
    let everything = json!({"rows": 1_000_000});
    for (condition, expected) in conditions {
        let filter = ("filter", json!({"where": condition}));
        let read = ("read", json!({"collection": "mixed", "order": true}));
        let steps = [read, ("limit", everything.clone()), filter, ("collect", json!({}))];
        let apart = run(&steps, &options(home.path(), 2)).unwrap();
        assert_eq!(skipped(&apart), (0, 0), "a limit needs all rows");
        for order in [true, false] {
            let steps = [
                ("read", json!({"collection": "mixed", "order": order})),
                steps[2].clone(),
                steps[3].clone(),
            ];
            let pushed = run(&steps, &options(home.path(), 2)).unwrap();
            let numbers = |report: &Report| {
                let mut numbers =
                    collected(report).column(0).as_primitive::<Int64Type>().values().to_vec();
                if !order {
                    numbers.sort_unstable();
                }
                numbers
            };
            assert_eq!(numbers(&pushed), numbers(&apart), "{condition} {order}");
            assert_eq!(skipped(&pushed).0, expected, "{condition}: {}", remark(&pushed));
            if expected > 0 {
                let told = format!("skipped {expected} of 10 blocks by {condition}");
                assert!(remark(&pushed).contains(&told), "{}", remark(&pushed));
            }
        }
    }
}

#[test]
fn check_tells_which_blocks_will_be_skipped_and_why() {
    let home = tempfile::tempdir().unwrap();
    write_mixed(home.path());
    let mut document = Document::new("test");
    let read = document.place("read", json!({"collection": "mixed"}), None);
    let filters = ["day >= date '2024-10-12'", "i < 850"]
        .map(|condition| document.place("filter", json!({"where": condition}), None));
    let collect = document.place("collect", json!({}), None);
    document.attach(&read, &filters[0]);
    document.attach(&filters[0], &filters[1]);
    document.attach(&filters[1], &collect);
    let checked = check(&document, &registry(), 2, home.path()).unwrap();
    let bound = &checked.nodes.iter().find(|node| node.id == read).unwrap().bound;
    let told = "skipped 9 of 10 blocks by (day >= date '2024-10-12') and (i < 850)";
    assert_eq!(bound.extent.as_deref(), Some(told));
    let all = Collection::open(home.path(), "mixed").unwrap().manifest().bytes;
    assert!(bound.bytes_expected.unwrap() < all / 5, "the bytes of one block");
}

#[test]
fn stream_over_several_disks_stays_in_order_without_skipped_blocks() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), 3);
    write_numbers(home.path(), json!({"collection": "c", "disks": names(3)}));
    let condition = "n between 400000 and 900000 or n >= 2900000";
    let expected = || (400_000..=900_000).chain(2_900_000..ROWS);
    for (order, cores) in [(true, 1), (true, 4), (false, 3)] {
        let how = json!({"collection": "c", "order": order});
        let (mut numbers, report) = read(how, condition, &options(home.path(), cores)).unwrap();
        if !order {
            numbers.sort_unstable();
        }
        assert!(numbers.into_iter().eq(expected()), "{order} {cores}");
        let (left_out, all) = skipped(&report);
        assert!(left_out > all / 2 && all > 20, "{}", remark(&report));
    }
    let (none, report) =
        read(json!({"collection": "c", "order": true}), "n < 0", &options(home.path(), 2)).unwrap();
    let (left_out, all) = skipped(&report);
    assert_eq!((none, left_out), (vec![], all));
}

#[test]
fn lost_disk_is_tolerated_where_blocks_are_skipped() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), 3);
    let write = json!({"collection": "c", "disks": names(3), "copies": 2, "layout": "spread"});
    write_numbers(home.path(), write);
    fs::remove_dir_all(home.path().join("disk1")).unwrap();
    for (order, mirrors) in [(true, "graduated"), (false, "graduated"), (true, "alternate")] {
        let how = json!({"collection": "c", "order": order, "mirrors": mirrors});
        let (mut numbers, report) =
            read(how, "n >= 1000000 and n < 1200000", &options(home.path(), 3)).unwrap();
        if !order {
            numbers.sort_unstable();
        }
        assert!(numbers.into_iter().eq(1_000_000..1_200_000), "{order} {mirrors}");
        assert!(skipped(&report).0 > 15, "{}", remark(&report));
        assert!(remark(&report).contains("read from mirrors: disk d1"), "{}", remark(&report));
    }
    repair(home.path(), "c", "mend").unwrap();
    assert_eq!(verify(home.path(), "c").unwrap().damages, vec![]);
    let how = json!({"collection": "c"});
    let (numbers, report) = read(how, "n = 7", &options(home.path(), 2)).unwrap();
    assert_eq!(numbers, [7]);
    assert!(skipped(&report).0 > 20, "a repaired copy keeps the statistics: {}", remark(&report));
}

#[test]
fn error_names_the_block_by_its_index_in_the_segment() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), 2);
    for (name, disks) in [("one", json!([])), ("two", json!(["d0", "d1"]))] {
        write_numbers(home.path(), json!({"collection": name, "disks": disks}));
        let collection = Collection::open(home.path(), name).unwrap();
        let segment = collection.segments().unwrap()[0].clone();
        let at = segment.blocks()[5].offset as usize + 100;
        let mut bytes = fs::read(segment.path()).unwrap();
        bytes[at] ^= 4;
        fs::write(segment.path(), bytes).unwrap();
        let batch = segment.read(4..5).next().unwrap().unwrap();
        let last = *batch.column(0).as_primitive::<Int64Type>().values().last().unwrap();
        let how = |order: bool| json!({"collection": name, "order": order});
        let below = format!("n <= {last}");
        let (numbers, report) = read(how(true), &below, &options(home.path(), 2)).unwrap();
        assert!(numbers.into_iter().eq(0..=last), "{}", remark(&report));
        for order in [false, true] {
            let above = format!("n > {last}");
            let error = read(how(order), &above, &options(home.path(), 2)).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.to_string().contains("block 5"), "{error}");
        }
        let damages = verify(home.path(), name).unwrap().damages;
        assert_eq!(damages.iter().map(|it| it.block).collect::<Vec<_>>(), [Some(5)]);
    }
}

/// A cluster of two workers.
fn cluster(home: &Path) -> (Arc<Cluster>, Vec<WorkerServer>) {
    let secret = Secret::random().unwrap();
    let server = |number: usize| {
        let setting = WorkerSettings {
            member: WorkerProperties { cores: 2, ..WorkerProperties::named(format!("w{number}")) },
            listen: "127.0.0.1:0".parse().unwrap(),
            secret: secret.clone(),
            security: Security::Token,
            lost_after: None,
            scratch: vec![home.join(format!("scratch{number}"))],
        };
        WorkerServer::start(setting, registry(), || ()).unwrap()
    };
    let servers: Vec<WorkerServer> = (0..2).map(server).collect();
    let address = |(number, server): (usize, &WorkerServer)| {
        let Address::Tcp(address) = server.address() else { unreachable!() };
        (format!("w{number}"), address.parse().unwrap())
    };
    let (driver, _) = StaticDriver::new(servers.iter().enumerate().map(address).collect());
    let cluster = Cluster::open_within(None, Box::new(driver), &secret, Security::Token).unwrap();
    (Arc::new(cluster), servers)
}

#[test]
fn workers_skip_the_same_blocks() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), 2);
    write_numbers(home.path(), json!({"collection": "two", "disks": names(2), "copies": 2}));
    write_numbers(home.path(), json!({"collection": "one"}));
    let (cluster, _servers) = cluster(home.path());
    let options =
        Options { cluster: Some(cluster), home: Some(home.path().into()), ..Options::default() };
    for name in ["one", "two"] {
        for order in [false, true] {
            let how = json!({"collection": name, "order": order});
            let (mut numbers, report) =
                read(how, "n between 700000 and 1500000", &options).unwrap();
            if !order {
                numbers.sort_unstable();
            }
            assert!(numbers.into_iter().eq(700_000..=1_500_000), "{name} {order}");
            assert!(skipped(&report).0 > 10, "{}", remark(&report));
        }
    }
}
