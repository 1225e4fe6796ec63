//! Flows over parallel and mirrored collections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_engine::{Options, Report, go};
use euphrates_flow::{Document, Kind, Result};
use euphrates_modules::registry;
use euphrates_store::catalog::{Catalog, CopyLayout};
use euphrates_store::collection::{Collection, repair, verify};
use serde_json::{Value, json};

const ROWS: i64 = 3_000_000;

fn name_disks(home: &Path, rates: &[Option<u64>], workers: usize) {
    let disks = rates.iter().enumerate().map(|(at, &rate)| NamedDisk {
        name: format!("d{at}"),
        folder: home.join(format!("disk{at}")),
        mode: Default::default(),
        rate,
        worker: format!("w{}", at % workers),
    });
    save_named_disks(home, &disks.collect::<Vec<_>>()).unwrap();
}

fn names(disks: usize) -> Vec<String> {
    (0..disks).map(|at| format!("d{at}")).collect()
}

fn run_on(home: &Path, cores: usize, steps: &[(&str, Value)]) -> Result<Report> {
    let mut document = Document::new("test");
    let ids: Vec<String> =
        steps.iter().map(|(module, config)| document.place(module, config.clone(), None)).collect();
    for pair in ids.windows(2) {
        document.attach(&pair[0], &pair[1]);
    }
    let options = Options { cores: Some(cores), home: Some(home.into()), ..Options::default() };
    go(&document, &registry(), &options)
}

fn make(home: &Path, cores: usize, order: bool, write: Value) -> Result<Report> {
    let make = json!({"what": "integers", "rows": ROWS, "order": order});
    run_on(home, cores, &[("generate", make), ("write", write)])
}

/// The values read, in the order of arrival, and the report.
fn read(home: &Path, cores: usize, read: Value) -> Result<(Vec<i64>, Report)> {
    let report = run_on(home, cores, &[("read", read), ("collect", json!({}))])?;
    let collected = report.collected.values().next().expect("a collect");
    let batch: RecordBatch = concat_batches(&collected.schema, &collected.batches).unwrap();
    Ok((batch.column(0).as_primitive::<Int64Type>().values().to_vec(), report))
}

fn remark(report: &Report, module: &str) -> String {
    let found = report.modules.iter().find(|one| one.module == module);
    found.and_then(|module| module.remark.clone()).unwrap_or_default()
}

/// MiB read from each disk, from the report.
fn mebibytes(report: &Report) -> BTreeMap<String, f64> {
    let remark = remark(report, "read");
    let parts = remark.split(&[',', ';'][..]).filter_map(|part| part.split_once(" MiB from "));
    parts.map(|(bytes, disk)| (disk.to_string(), bytes.trim().parse().unwrap())).collect()
}

fn segments(home: &Path, copy: usize) -> Vec<PathBuf> {
    let manifest = Catalog::of(home).unwrap().newest_readable("c").unwrap();
    let copies = manifest.segments.iter().map(|entry| entry.copies().swap_remove(copy));
    copies.map(|copy| home.join(copy.disk.replace('d', "disk")).join(copy.path)).collect()
}

#[test]
fn collections_of_any_layout_read_back() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 3], 3);
    let layouts = [(1, None), (2, Some("chained")), (2, Some("spread")), (3, None)];
    for (at, (copies, layout)) in layouts.into_iter().enumerate() {
        for (order, cores) in [(false, 1), (true, 2), (true, 5), (false, 5)] {
            let write = json!({
                "collection": "c", "disks": names(3), "copies": copies, "layout": layout,
                "overwrite": true,
            });
            let report = make(home.path(), cores, order, write).unwrap();
            assert_eq!(remark(&report, "write"), "", "mirrors are on different workers");
            let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
            assert_eq!((manifest.copies(), manifest.interleaved), (copies, order));
            assert_eq!(manifest.disks().len(), 3);
            assert!(manifest.segments.iter().all(|segment| segment.blocks > 0), "all disks write");
            assert_eq!(verify(home.path(), "c").unwrap().damages, vec![]);
            for (order_read, cores) in [(order, 3), (false, 1)] {
                let how = json!({"collection": "c", "order": order_read});
                let (mut numbers, _) = read(home.path(), cores, how).unwrap();
                if !order_read {
                    numbers.sort_unstable();
                }
                assert!(numbers.into_iter().eq(0..ROWS), "{at} {order} {cores} {order_read}");
            }
        }
    }
}

#[test]
fn slow_disk_is_relieved_by_its_mirrors() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 4], 4);
    let write = json!({"collection": "c", "disks": names(4), "copies": 2});
    make(home.path(), 2, true, write).unwrap();
    let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
    let share = manifest.bytes as f64 / f64::from(1 << 20) / 4.0;
    name_disks(
        home.path(),
        &[Some(8_000_000), Some(32_000_000), Some(32_000_000), Some(32_000_000)],
        4,
    );
    for order in [false, true] {
        for (mirrors, least, most) in [("graduated", 0.0, 0.7), ("alternate", 0.8, 1.2)] {
            let how = json!({"collection": "c", "order": order, "mirrors": mirrors});
            let (mut numbers, report) = read(home.path(), 2, how).unwrap();
            if !order {
                numbers.sort_unstable();
            }
            assert!(numbers.into_iter().eq(0..ROWS), "every block comes once, {mirrors} {order}");
            let bytes = mebibytes(&report);
            let slow = bytes.get("d0").copied().unwrap_or(0.0) / share;
            assert!((least..most).contains(&slow), "{mirrors} {order}: {bytes:?} of {share}");
        }
    }
}

#[test]
fn a_slow_disk_is_given_fewer_blocks_to_write() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[Some(8_000_000), Some(64_000_000), Some(64_000_000)], 3);
    for order in [false, true] {
        let write = json!({"collection": "c", "disks": names(3), "overwrite": true});
        make(home.path(), 2, order, write).unwrap();
        let manifest = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap();
        let slow = manifest.segments[0].bytes as f64 / (manifest.bytes as f64 / 3.0);
        assert!(slow < 0.8, "{order}: {slow} of an equal share");
    }
}

#[test]
fn damaged_block_is_read_from_mirror_and_reported() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 2], 1);
    let write = json!({"collection": "c", "disks": names(2), "copies": 2});
    let report = make(home.path(), 2, true, write).unwrap();
    assert!(remark(&report, "write").contains("2 of 2 segments have copies on one worker"));
    let how = |mirrors: &str| json!({"collection": "c", "order": true, "mirrors": mirrors});
    let offset =
        Collection::open(home.path(), "c").unwrap().segments().unwrap()[0].blocks()[1].offset;
    let harm = |copy: usize| {
        let path = &segments(home.path(), copy)[0];
        let mut bytes = fs::read(path).unwrap();
        bytes[offset as usize + 100] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    harm(0);
    let (numbers, report) = read(home.path(), 2, how("primary")).unwrap();
    assert!(numbers.into_iter().eq(0..ROWS));
    let told = remark(&report, "read");
    assert!(told.contains("1 damaged block, read from mirrors: disk d0"), "{told}");
    assert!(told.contains("block 1: its checksum"), "{told}");
    harm(1);
    let error = read(home.path(), 2, how("graduated")).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("block 1 of c/") && text.contains("disks d0, d1"), "{text}");
    assert_eq!(repair(home.path(), "c", "mend").unwrap().lost.len(), 2);
    harm(1);
    assert_eq!(repair(home.path(), "c", "mend").unwrap().rewritten.len(), 1);
    let (numbers, report) = read(home.path(), 2, how("primary")).unwrap();
    assert!(numbers.into_iter().eq(0..ROWS));
    assert!(!remark(&report, "read").contains("damaged"), "{}", remark(&report, "read"));
}

#[test]
fn missing_disk_is_tolerated() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 3], 3);
    let write = json!({"collection": "c", "disks": names(3), "copies": 2, "layout": "spread"});
    make(home.path(), 2, false, write).unwrap();
    fs::remove_dir_all(home.path().join("disk1")).unwrap();
    let (mut numbers, report) = read(home.path(), 2, json!({"collection": "c"})).unwrap();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..ROWS));
    let told = remark(&report, "read");
    assert!(told.contains("damaged copies, read from mirrors: disk d1"), "{told}");
    assert!(!mebibytes(&report).contains_key("d1"), "{told}");
    repair(home.path(), "c", "mend").unwrap();
    assert_eq!(verify(home.path(), "c").unwrap().damages, vec![]);
    let layout = Catalog::of(home.path()).unwrap().newest_readable("c").unwrap().layout;
    assert_eq!(layout, CopyLayout::Spread);
}

#[test]
fn mistakes_are_found_before_the_flow_starts() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 2], 2);
    let cases = [
        (json!({"copies": 3, "disks": names(2)}), "3 copies need 3 disks, and 2 are named"),
        (json!({"disks": ["d0", "d7"]}), "did you mean `d0`?"),
        (json!({"disk": "d0", "disks": ["d1"]}), "both `disk` and `disks`"),
        (json!({"copies": 2, "disks": names(2), "layout": "chainde"}), "did you mean `chained`?"),
    ];
    for (mut write, told) in cases {
        write["collection"] = "c".into();
        let error = make(home.path(), 2, false, write).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(told), "{error}");
    }
    let error = read(home.path(), 1, json!({"collection": "c", "mirrors": "gradual"})).unwrap_err();
    assert!(error.to_string().contains("did you mean `graduated`?"), "{error}");
}

#[test]
fn several_readers_of_a_flow_share_the_disks() {
    let home = tempfile::tempdir().unwrap();
    name_disks(home.path(), &[None; 3], 3);
    make(home.path(), 2, false, json!({"collection": "c", "disks": names(3), "copies": 2}))
        .unwrap();
    let mut document = Document::new("test");
    let union = document.place("union", json!({}), None);
    for _ in 0..2 {
        let read = document.place("read", json!({"collection": "c"}), None);
        document.attach(&read, &union);
    }
    let collect = document.place("collect", json!({}), None);
    document.attach(&union, &collect);
    let options = Options { cores: Some(2), home: Some(home.path().into()), ..Options::default() };
    let report = go(&document, &registry(), &options).unwrap();
    let rows: usize = report.collected[&collect].batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as i64, 2 * ROWS);
}
