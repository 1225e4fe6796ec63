//! Round trips through every format, files of other programs, and errors that name the fault.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_flow::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Error, Kind, batch_bytes};
use euphrates_formats::{Compression, Dataset, ReadOptions, WriteOptions};
use support::*;

fn uncompressed() -> WriteOptions {
    WriteOptions::default()
}

#[test]
fn every_format_round_trips_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    type Case = (&'static str, fn(usize) -> RecordBatch);
    let cases: [Case; 6] = [
        ("a.parquet", motley),
        ("a.arrow", motley),
        ("a.csv", plain),
        ("a.jsonl", plain),
        ("a.records", records),
        ("a.txt", lines),
    ];
    for (name, make) in cases {
        for rows in [1, 2, 9, 1000] {
            let whole = make(rows);
            let part = rows / 3;
            let batches =
                [whole.slice(0, part), whole.slice(part, 0), whole.slice(part, rows - part)];
            let read = through(folder.path(), name, &batches, &uncompressed()).unwrap();
            assert_eq!(read.num_rows(), rows, "{name}");
            for field in whole.schema().fields() {
                let (mut expected, mut found) =
                    (whole[field.name().as_str()].clone(), read[field.name().as_str()].clone());
                if name == "a.arrow" && field.name() == "word" {
                    expected = cast(&expected, &DataType::Utf8).unwrap();
                }
                if expected.null_count() == rows {
                    // The sample had no value to infer a type from.
                    expected = cast(&expected, found.data_type()).unwrap();
                }
                if found.data_type() != expected.data_type() && !name.ends_with("arrow") {
                    // JSON has no dates, and CSV and JSON hold them as text.
                    found = cast(&found, expected.data_type()).unwrap();
                }
                assert_eq!(&found, &expected, "{name} {} of {rows} rows", field.name());
            }
        }
    }
}

#[test]
fn every_compression_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let batch = motley(5000);
    for (name, compression) in [
        ("a.parquet", Compression::Lz4),
        ("a.parquet", Compression::Zstd),
        ("a.parquet", Compression::Snappy),
        ("a.arrow", Compression::Lz4),
        ("a.arrow", Compression::Zstd),
    ] {
        let options = WriteOptions { compression: Some(compression), ..uncompressed() };
        let read = through(folder.path(), name, std::slice::from_ref(&batch), &options).unwrap();
        let bytes = std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(bytes < batch_bytes(&batch) as u64, "{name} {compression:?}: {bytes}");
        assert_eq!(read["text"].as_ref(), batch["text"].as_ref(), "{name} {compression:?}");
        assert_eq!(read["key"].as_ref(), batch["key"].as_ref(), "{name} {compression:?}");
    }
}

#[test]
fn large_files_are_read_in_splits_and_batches_near_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let batches: Vec<RecordBatch> = (0..40).map(|_| records(10_000)).collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3_000_000));
    let numbers = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let numbers: Vec<RecordBatch> =
        (0..30).map(|at| numbers.slice(at * 100_000, 100_000)).collect();
    let cases = [
        ("r.records", &batches),
        ("r.parquet", &batches),
        ("r.arrow", &batches),
        ("n.csv", &numbers),
        ("n.jsonl", &numbers),
        ("n.parquet", &numbers),
    ];
    for (name, batches) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, encoded(name, batches, 10, &uncompressed()).unwrap()).unwrap();
        let dataset = open(&path, &ReadOptions::default()).unwrap();
        assert!(dataset.splits() > 1, "{name}: {}", dataset.splits());
        let read = read_all(&dataset).unwrap();
        for batch in &read {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= BATCH_ROWS_MAX, "{name}");
            assert!(batch_bytes(batch) <= 2 * BATCH_BYTES_TARGET + 1000, "{name}");
        }
        let bytes: usize = read.iter().map(batch_bytes).sum();
        let average = bytes / read.len();
        assert!(average > BATCH_BYTES_TARGET / 4, "{name}: {average} bytes to a batch");
        let all = arrow::compute::concat_batches(dataset.schema(), &read).unwrap();
        let expected = arrow::compute::concat_batches(batches[0].schema_ref(), batches).unwrap();
        assert_eq!(all.columns(), expected.columns(), "{name}");
    }
}

#[test]
fn columns_are_read_in_the_requested_order() {
    let folder = tempfile::tempdir().unwrap();
    let columns = |names: &[&str]| ReadOptions {
        columns: Some(names.iter().map(|name| name.to_string()).collect()),
        ..ReadOptions::default()
    };
    for (name, batch) in [
        ("a.parquet", motley(100)),
        ("a.arrow", motley(100)),
        ("a.csv", plain(100)),
        ("a.jsonl", plain(100)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(
            &path,
            encoded(name, std::slice::from_ref(&batch), 1, &uncompressed()).unwrap(),
        )
        .unwrap();
        let read = decoded(&path, &columns(&["text", "int"])).unwrap();
        assert_eq!(read.columns(), [batch["text"].clone(), batch["int"].clone()], "{name}");
        let none = decoded(&path, &columns(&[])).unwrap();
        assert_eq!((none.num_rows(), none.num_columns()), (100, 0), "{name}");
        let error = decoded(&path, &columns(&["txt"])).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{name}: {error}");
        assert_eq!(error.advice(), Some("did you mean `text`?"), "{name}");
        assert!(decoded(&path, &columns(&["int", "int"])).is_err(), "{name}");
    }
}

#[test]
fn small_and_odd_files_are_read_or_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    // Name, content, and rows and columns or the kind of error.
    type Case = (&'static str, &'static [u8], Result<(usize, usize), Kind>);
    let cases: [Case; 17] = [
        ("empty.parquet", b"", Err(Kind::Corrupt)),
        ("empty.arrow", b"", Err(Kind::Corrupt)),
        ("empty.csv", b"", Err(Kind::Usage)),
        ("empty.jsonl", b"", Err(Kind::Usage)),
        ("empty.records", b"", Ok((0, 2))),
        ("empty.txt", b"", Ok((0, 1))),
        ("header.csv", b"a,b\n", Ok((0, 2))),
        ("open.csv", b"a,b\n1,2\n3,4", Ok((2, 2))),
        ("mac.csv", b"a,b\r1,2\r3,4\r", Ok((2, 2))),
        ("dos.csv", b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n", Ok((2, 2))),
        ("tab.tsv", b"a\tb\n1\t2\n", Ok((1, 2))),
        ("twice.csv", b"a,a\n1,2\n", Ok((1, 2))),
        ("open.txt", b"a\n\nb", Ok((3, 1))),
        ("ends.txt", b"\n", Ok((1, 1))),
        ("short.records", &[b' '; 150], Err(Kind::Corrupt)),
        ("text.parquet", b"no parquet at all", Err(Kind::Corrupt)),
        ("old.feather", b"FEA1....FEA1", Err(Kind::Usage)),
    ];
    for (name, content, expected) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let read = decoded(&path, &ReadOptions::default());
        let found = read.as_ref().map(|read| (read.num_rows(), read.num_columns()));
        assert_eq!(found.map_err(Error::kind), expected, "{name}: {read:?}");
        if let Err(error) = read {
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn schema_without_rows_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.parquet", "a.arrow", "a.csv"] {
        let batch = if name == "a.csv" { plain(0) } else { motley(0) };
        let read =
            through(folder.path(), name, std::slice::from_ref(&batch), &uncompressed()).unwrap();
        assert_eq!((read.num_rows(), read.num_columns()), (0, batch.num_columns()), "{name}");
    }
    for name in ["a.parquet", "a.arrow", "a.csv", "a.jsonl"] {
        let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
        match through(folder.path(), name, &[none], &uncompressed()) {
            Ok(read) => assert_eq!((read.num_rows(), read.num_columns()), (0, 0), "{name}"),
            Err(error) => assert_eq!(error.kind(), Kind::Usage, "{name}: {error}"),
        }
    }
}

fn opened(folder: &Path, files: &[(&str, &str)]) -> euphrates_flow::Result<Dataset> {
    for (name, content) in files {
        std::fs::write(folder.join(name), content).unwrap();
    }
    let paths: Vec<String> =
        files.iter().map(|(name, _)| folder.join(name).display().to_string()).collect();
    Dataset::open(&paths, &ReadOptions::default())
}

#[test]
fn incompatible_files_are_named_with_their_column() {
    let folder = tempfile::tempdir().unwrap();
    let errors = [
        (vec![("a.csv", "x,y\n1,2\n"), ("b.csv", "x,z\n1,2\n")], "b.csv", "`z`"),
        (vec![("a.csv", "x\n1\n"), ("b.csv", "x,y\n1,2\n")], "b.csv", "`y`"),
        (vec![("a.jsonl", "{\"x\":{\"y\":1}}\n"), ("b.jsonl", "{\"x\":1}\n")], "b.jsonl", "`x`"),
        (vec![("a.csv", "x\n1\n"), ("b.jsonl", "{\"x\":1}\n")], "b.jsonl", "csv"),
    ];
    for (files, file, what) in errors {
        let error = opened(folder.path(), &files).err().expect(what);
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains(file) && error.to_string().contains(what), "{error}");
        assert!(error.advice().is_some());
    }
    let batch = motley(3);
    let other = batch.project(&[0, 1, 2]).unwrap();
    let narrow = RecordBatch::try_from_iter([
        ("int", cast(&other["int"], &DataType::Utf8).unwrap()),
        ("bool", other["bool"].clone()),
        ("float", other["float"].clone()),
    ]);
    for (name, batch) in [("a.parquet", other), ("b.parquet", narrow.unwrap())] {
        let bytes = encoded(name, &[batch], 1, &uncompressed()).unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let pattern = folder.path().join("*.parquet");
    let error = open(&pattern, &ReadOptions::default()).err().unwrap().to_string();
    for part in ["b.parquet", "a.parquet", "`int`", "Utf8", "Int64"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn compatible_files_are_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    // Columns in another order, and types that are wider in one file than in another.
    let csv = [("a.csv", "x,y,z\n1,2,\n"), ("b.csv", "y,x,z\n0.5,word,\n"), ("c.csv", "x,y,z\n")];
    let dataset = opened(folder.path(), &csv).unwrap();
    let types: Vec<&DataType> =
        dataset.schema().fields().iter().map(|field| field.data_type()).collect();
    assert_eq!(types, [&DataType::Utf8, &DataType::Float64, &DataType::Utf8]);
    let rows: Vec<RecordBatch> = read_all(&dataset).unwrap();
    assert_eq!(rows[0]["x"].as_string::<i32>().value(0), "1");
    assert_eq!(rows[1]["x"].as_string::<i32>().value(0), "word");
    assert_eq!(rows[1]["y"].as_primitive::<Float64Type>().value(0), 0.5);

    let json =
        [("a.jsonl", "{\"x\":1}\n"), ("b.jsonl", ""), ("c.jsonl", "{\"y\":[{\"z\":null}]}\n")];
    let dataset = opened(folder.path(), &json).unwrap();
    let all = arrow::compute::concat_batches(dataset.schema(), &read_all(&dataset).unwrap());
    let all = all.unwrap();
    assert_eq!((all.num_rows(), all["x"].null_count(), all["y"].null_count()), (2, 1, 1));
}

#[test]
fn malformed_line_is_named_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let good = |line: usize| format!("{line},\"some text\nof two lines\",{}\n", line * 2);
    let mut csv = String::from("a,b,c\n");
    // There is more than one split, and the malformed line is far after the sample.
    let faulty = 700_000;
    for row in 0..800_000 {
        csv.push_str(&if row == faulty { "7,x\n".into() } else { good(row) });
    }
    let line = 2 + 2 * faulty;
    let path = folder.path().join("a.csv");
    std::fs::write(&path, &csv).unwrap();
    let error = decoded(&path, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("a.csv") && text.contains(&format!("line {line}:")), "{text}");

    let cases = [
        ("value.csv", "a\n1\n2\nx\n", "line 4"),
        ("wide.csv", "a,b\n1,2\n3,4,5\n", "line 3"),
        ("utf8.csv", "a\nx\ny\n", "line 3"),
        ("cut.jsonl", "{\"a\":1}\n{\"a\":\n", "line 2"),
        ("type.jsonl", "{\"a\":1}\n\n{\"a\":\"x\"}\n", "line 3"),
    ];
    for (name, content, place) in cases {
        let path = folder.path().join(name);
        let mut bytes = content.as_bytes().to_vec();
        if name == "utf8.csv" {
            bytes[4] = 0xff;
        }
        std::fs::write(&path, &bytes).unwrap();
        // The sample is the whole file here, so the types are set.
        let types = BTreeMap::from([(
            "a".to_string(),
            if name == "utf8.csv" { "string" } else { "int64" }.to_string(),
        )]);
        let options = ReadOptions { types: Some(types), ..ReadOptions::default() };
        let read = decoded(&path, &options);
        let error = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(name) && error.contains(place), "{name}: {error}");
    }
}

#[test]
fn unsupported_values_are_refused_before_anything_is_written() {
    let nested = motley(1).project(&[10]).unwrap();
    let cases = [
        ("a.csv", nested.clone()),
        ("a.records", nested.clone()),
        ("a.txt", nested),
        ("a.xyz", plain(1)),
    ];
    for (name, batch) in cases {
        let error = encoded(name, &[batch], 1, &uncompressed()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{name}: {error}");
        assert!(error.advice().is_some(), "{name}: {error}");
    }
    let null: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let null = RecordBatch::try_from_iter([("line", null)]).unwrap();
    assert!(encoded("a.txt", &[null], 1, &uncompressed()).is_err());
}

#[test]
fn unsupported_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "x\n").unwrap();
    let error =
        open(&path, &ReadOptions { header: Some(true), ..Default::default() }).err().unwrap();
    assert!(error.message().contains("lines has no option `header`"), "{error}");
    let options = ReadOptions { format: Some("parqet".into()), ..Default::default() };
    let error = open(&path, &options).err().unwrap();
    assert_eq!(error.advice(), Some("did you mean `parquet`?"));
}

#[test]
fn arrow_streams_and_dictionaries_are_read() {
    use arrow::ipc::writer::{FileWriter, StreamWriter};
    let folder = tempfile::tempdir().unwrap();
    let batches = [motley(100), motley(5)];
    let (mut stream, mut file) = (vec![], vec![]);
    let mut writer = StreamWriter::try_new(&mut stream, batches[0].schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let mut writer = FileWriter::try_new(&mut file, batches[0].schema_ref()).unwrap();
    writer.write(&batches[0]).unwrap();
    writer.finish().unwrap();
    for (name, bytes, rows) in [("a.arrows", &stream, 105), ("b.arrow", &file, 100)] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let read = decoded(&path, &ReadOptions::default()).unwrap();
        assert_eq!(read.num_rows(), rows);
        assert_eq!(&read.slice(0, 100), &batches[0].clone().with_schema(read.schema()).unwrap());
    }
}
