//! CSV and JSON lines preserve every value, or name the one that they cannot preserve.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use euphrates_flow::{Kind, Result};
use euphrates_formats::{BatchStream, PipeWriter, ReadOptions, WriteOptions};
use support::*;

fn read(name: &str, content: &[u8], types: &[(&str, &str)]) -> Result<RecordBatch> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    decoded(&path, &options(types))
}

fn options(types: &[(&str, &str)]) -> ReadOptions {
    let types: BTreeMap<String, String> =
        types.iter().map(|(name, data_type)| (name.to_string(), data_type.to_string())).collect();
    ReadOptions { types: (!types.is_empty()).then_some(types), ..ReadOptions::default() }
}

/// Reads the same bytes through a pipe.
fn piped(format: &str, content: Vec<u8>) -> Result<RecordBatch> {
    let input = std::io::Cursor::new(content);
    let stream = BatchStream::open(format, input, None, &ReadOptions::default())?;
    let batches = stream.batches.collect::<Result<Vec<_>>>()?;
    Ok(arrow::compute::concat_batches(&stream.schema, &batches)?)
}

#[test]
fn late_misfit_is_named_with_its_line() {
    let csv =
        |first: &str, last: &str| format!("a\n{}{last}\n", format!("{first}\n").repeat(30000));
    let json = |first: &str, last: &str| {
        let line = |value: &str| format!("{{\"a\":{value}}}\n");
        line(first).repeat(30000) + &line(last)
    };
    let time = "2024-01-02T03:04:05";
    for (format, content, value, line, other) in [
        ("json_lines", json("1", "1.7"), "1.7", 30001, "float64"),
        ("json_lines", json("1", "18446744073709551615"), "18446744073709551615", 30001, "Decimal"),
        ("json_lines", json("1", "\"x\""), "x", 30001, "string"),
        ("csv", csv("1", "1.7"), "1.7", 30002, "float64"),
        ("csv", csv(time, &format!("{time}.123456789")), ".123456789", 30002, "timestamp_ns"),
        ("csv", csv(time, &format!("{time}+02:00")), "+02:00", 30002, "timestamptz"),
        ("csv", csv("2024-01-02", time), time, 30002, "timestamp"),
    ] {
        let name = format!("late.{format}").replace("json_lines", "jsonl");
        for error in [
            read(&name, content.as_bytes(), &[]).unwrap_err(),
            piped(format, content.clone().into_bytes()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            let row = error.row().unwrap().values[0].text.as_deref().unwrap();
            assert!(row.contains(value) && !row.contains('\n'), "{row:?}");
            let text = error.to_string();
            for part in [&format!("line {line}: column `a`"), value, "does not fit", other] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
    // A time finer than seconds is preserved, though the first rows have whole seconds.
    let all = read("fine.csv", csv(time, &format!("{time}.123")).as_bytes(), &[]).unwrap();
    let times = all["a"].as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.value(30000) - times.value(0), 123_000);
}

#[test]
fn declared_type_does_not_truncate_values() {
    for (content, data_type) in [
        ("{\"a\":1.7}\n", "int64"),
        ("{\"a\":1.005}\n", "Decimal128(5, 2)"),
        ("{\"a\":1e300}\n", "float32"),
        ("{\"a\":\"2024-01-02T03:04:05.123456789\"}\n", "timestamp"),
    ] {
        let error = read("a.jsonl", content.as_bytes(), &[("a", data_type)]).unwrap_err();
        assert!(error.to_string().contains("line 1: column `a`"), "{error}");
        let value = content.trim_end().trim_start_matches("{\"a\":").trim_end_matches('}');
        let csv = format!("a\n{}\n", value.trim_matches('"'));
        let error = read("a.csv", csv.as_bytes(), &[("a", data_type)]).unwrap_err();
        assert!(error.to_string().contains("line 2: column `a`"), "{error}");
    }
    let all = read("a.jsonl", b"{\"a\":[{\"b\":1},{\"b\":2.5}]}\n", &[]).unwrap();
    assert!(format!("{:?}", all["a"]).contains("2.5"));
    let all = read("a.jsonl", b"{\"a\":\"x\"}\n{\"a\":1.50}\n{\"a\":true}\n", &[]).unwrap();
    let texts: Vec<_> = all["a"].as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["x", "1.50", "true"]);
    let error = read("a.csv", b"a\n1\n", &[("a", "Interval(DayTime)")]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

#[test]
fn large_integers_round_trip() {
    let large: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 53 | 1, u64::MAX]));
    let batch = RecordBatch::try_from_iter([("a", large.clone())]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.csv", "a.jsonl"] {
        let options = WriteOptions::default();
        let read = through(folder.path(), name, std::slice::from_ref(&batch), &options).unwrap();
        assert_eq!(&read["a"], &large, "{name}");
    }
    let both = read("b.csv", b"a\n-1\n18446744073709551615\n", &[]).unwrap();
    assert_eq!(both["a"].data_type(), &DataType::Decimal128(20, 0));
}

#[test]
fn empty_text_is_not_a_null() {
    let texts = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let a = texts(vec![Some(""), None, Some("x"), Some("\"q\",\n"), None]);
    let b: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None, None]));
    let folder = tempfile::tempdir().unwrap();
    for columns in [vec![("a", a.clone())], vec![("b", b.clone())], vec![("a", a), ("b", b)]] {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let options = WriteOptions::default();
        let bytes = encoded("a.csv", std::slice::from_ref(&batch), 1, &options).unwrap();
        let read = through(folder.path(), "a.csv", std::slice::from_ref(&batch), &options);
        assert_eq!(read.unwrap().columns(), batch.columns());
        assert_eq!(piped("csv", bytes).unwrap().columns(), batch.columns());
    }
    let odd = read("odd.csv", b"a,b\n\"\",\"\"\n,\n", &[("b", "int64")]).unwrap();
    assert_eq!((odd["a"].null_count(), odd["b"].null_count()), (1, 2));
}

#[test]
fn zones_are_converted_to_utc() {
    let text = b"a\n2024-01-02T03:04:05+02:00\n2024-01-02T01:04:05Z\n";
    let all = read("zone.csv", text, &[]).unwrap();
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(all["a"].data_type(), &utc);
    let times = all["a"].as_primitive::<TimestampMicrosecondType>();
    assert_eq!(times.value(0), times.value(1));
}

#[test]
fn unclosed_quote_is_named_with_its_line() {
    let whole = "a,b\n1,x\n2,\"open\n3,y\n";
    let long = format!("a,b\n{}2,\"open\n{}", "1,x\n".repeat(100_000), "3,y\n".repeat(5_000_000));
    for (text, line) in [(whole, "line 3"), (long.as_str(), "line 100002")] {
        for error in [
            read("open.csv", text.as_bytes(), &[]).unwrap_err(),
            piped("csv", text.as_bytes().to_vec()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Corrupt);
            let text = error.to_string();
            assert!(text.contains(line) && text.contains("never closed"), "{text}");
        }
    }
}

#[test]
fn late_object_key_is_not_lost_whatever_columns_are_read() {
    let line = "{\"a\":{\"x\":1},\"b\":2,\"c\":[{\"y\":1}]}\n";
    let with = |last: &str| line.repeat(30000) + last;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.jsonl");
    let read = |content: String, columns: &[&str]| {
        std::fs::write(&path, content).unwrap();
        let columns = columns.iter().map(|name| name.to_string()).collect();
        decoded(&path, &ReadOptions { columns: Some(columns), ..ReadOptions::default() })
    };
    for (last, columns) in
        [("{\"a\":{\"x\":1,\"z\":2}}\n", ["b", "a"]), ("{\"c\":[{\"z\":2}]}\n", ["c", "b"])]
    {
        let error = read(with(last), &columns).unwrap_err().to_string();
        assert!(error.contains("line 30001") && error.contains('z'), "{error}");
        let all = read(with(""), &columns).unwrap();
        assert_eq!((all.num_rows(), all.num_columns()), (30000, 2));
        assert_eq!(all.schema().field(0).name(), columns[0]);
    }
    // Columns outside of the projection may hold anything.
    let all = read(with("{\"a\":{\"z\":2},\"b\":7,\"d\":1}\n"), &["b"]).unwrap();
    assert_eq!(all["b"].as_primitive::<Int64Type>().value(30000), 7);
}

#[test]
fn bytes_are_text_in_csv_or_refused() {
    let bytes: Vec<Option<&[u8]>> = vec![Some(b"a,b"), None, Some("ü".as_bytes())];
    let column = BinaryArray::from(bytes.clone());
    let words: DictionaryArray<Int32Type> =
        vec![Some("a,b"), None, Some("ü")].into_iter().collect();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(column.clone()),
        arrow::compute::cast(&column, &DataType::LargeBinary).unwrap(),
        arrow::compute::cast(&column, &DataType::BinaryView).unwrap(),
        arrow::compute::cast(&words, &dictionary).unwrap(),
    ];
    for column in columns {
        let what = column.data_type().clone();
        let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        let csv = encoded("a.csv", &[batch], 1, &WriteOptions::default()).unwrap();
        assert_eq!(String::from_utf8(csv).unwrap(), "a\n\"a,b\"\n\nü\n", "{what}");
    }
    let strange: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter([[0xffu8, 0]].into_iter()).unwrap());
    let batch = RecordBatch::try_from_iter([("key", strange)]).unwrap();
    let error = encoded("a.csv", &[batch], 1, &WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("column `key`") && error.advice().is_some(), "{error}");
}

#[test]
fn tsv_is_tab_separated_in_files_and_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let named = ReadOptions { format: Some("tsv".into()), ..ReadOptions::default() };
    for (name, options) in [("a.TSV", &ReadOptions::default()), ("a.txt", &named)] {
        let path = folder.path().join(name);
        std::fs::write(&path, "a\tb\n1\t2,5\n").unwrap();
        let read = decoded(&path, options).unwrap();
        assert_eq!(read["b"].as_string::<i32>().value(0), "2,5", "{name}");
    }
    assert_eq!(piped("tsv", b"a\tb\n1\t2\n".to_vec()).unwrap().num_columns(), 2);
    let mut out = vec![];
    let batch = plain(1);
    let options = WriteOptions::default();
    let mut sink = PipeWriter::open("tsv", &mut out, &batch.schema(), &options).unwrap();
    sink.write(&batch).unwrap();
    sink.finish().unwrap();
    assert!(out.starts_with(b"int\tbool\t"));
}

#[test]
fn empty_file_is_compatible_with_any_other() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [("0.csv", ""), ("1.csv", "a,b\n1,x\n"), ("2.csv", "")] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let all = folder.path().join("*.csv");
    for (types, columns) in [(&[] as &[_], None), (&[("a", "float64")], Some(vec!["a".into()]))] {
        let read = decoded(&all, &ReadOptions { columns, ..options(types) }).unwrap();
        assert_eq!((read.num_rows(), read.schema().field(0).name().as_str()), (1, "a"));
    }
    let unknown = ReadOptions { columns: Some(vec!["c".into()]), ..ReadOptions::default() };
    let error = decoded(&all, &unknown).unwrap_err();
    assert!(error.to_string().contains("1.csv"), "{error}");
}

#[test]
fn values_that_json_cannot_hold_are_not_written() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(f64::NAN)]));
    let batch = RecordBatch::try_from_iter([("f", floats)]).unwrap();
    let options = WriteOptions::default();
    let error = encoded("a.jsonl", std::slice::from_ref(&batch), 1, &options).unwrap_err();
    assert!(error.to_string().contains("column `f`: JSON has no NaN"), "{error}");
    assert!(encoded("a.jsonl", &[batch.slice(0, 2)], 1, &options).is_ok());
    for column in within(f64::NAN) {
        let what = column.data_type().clone();
        let batch = RecordBatch::try_from_iter([("f", column)]).unwrap();
        let error = encoded("a.jsonl", &[batch], 1, &options).unwrap_err();
        assert!(error.to_string().contains("column `f`: JSON has no NaN"), "{what}: {error}");
    }
    for column in within(1.5) {
        let batch = RecordBatch::try_from_iter([("f", column)]).unwrap();
        assert!(encoded("a.jsonl", &[batch], 1, &options).is_ok());
    }
    let csv = encoded("a.csv", &[batch], 1, &options).unwrap();
    let read = read("a.csv", &csv, &[("f", "float64")]).unwrap();
    assert!(read["f"].as_primitive::<Float64Type>().value(2).is_nan());
}

/// A number nested in columns of every type that has children.
fn within(number: f64) -> Vec<ArrayRef> {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    map.keys().append_value("x");
    map.values().append_value(number);
    map.append(true).unwrap();
    let plain: ArrayRef = Arc::new(Float64Array::from(vec![number]));
    let keys = Int32Array::from(vec![0]);
    let list = ListArray::from_iter_primitive::<Float64Type, _, _>([Some([Some(number)])]);
    vec![
        Arc::new(map.finish()),
        Arc::new(DictionaryArray::new(keys, plain)),
        Arc::new(ListViewArray::from(list.clone())),
        Arc::new(list),
    ]
}

#[test]
fn marks_and_foreign_bytes_before_the_text_are_recognized() {
    let marked = b"\xef\xbb\xbf{\"a\":1}\n";
    assert_eq!(read("a.jsonl", marked, &[]).unwrap().num_rows(), 1);
    assert_eq!(piped("json_lines", marked.to_vec()).unwrap().num_rows(), 1);
    let headed = b"\xef\xbb\xbfa\n1\n";
    assert_eq!(piped("csv", headed.to_vec()).unwrap().schema().field(0).name(), "a");
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, b'x'];
    let cut = "the gzip data ends too early";
    for (format, says) in [("csv", cut), ("json_lines", cut), ("arrow_ipc", "compressed with gzip")]
    {
        let error = piped(format, gzip.to_vec()).unwrap_err().to_string();
        assert!(error.contains(says), "{format}: {error}");
        let empty = piped(format, vec![]).unwrap_err();
        assert!(empty.to_string().contains("nothing in the input"), "{format}: {empty}");
    }
    for name in ["a.csv", "a.csv.gz"] {
        let error = read(name, &gzip, &[]).unwrap_err().to_string();
        assert!(error.contains(cut), "{name}: {error}");
    }
    assert_eq!(read("a.json", b"[{\"a\":1}]", &[]).unwrap().num_rows(), 1);
    let error = piped("arrow_ipc", b"id,name\n1,x\n".to_vec()).unwrap_err();
    assert!(error.to_string().contains("it looks like text"), "{error}");
    assert_eq!(piped("lines", vec![]).unwrap().num_rows(), 0);
    assert_eq!(piped("records", vec![]).unwrap().num_rows(), 0);
    assert_eq!(piped("csv", b"a,b\n".to_vec()).unwrap().num_columns(), 2);
}

#[test]
fn partition_folders_are_columns_unless_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in
        [("k=a/year=1/x.csv", "id,k\n1,a\n"), ("k=b/year=2/x.csv", "id,k\n2,b\n")]
    {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let dataset = open(folder.path(), &ReadOptions::default()).unwrap();
    let names: Vec<&String> = dataset.schema().fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["id", "k", "year"], "files have `k` themselves");
    assert_eq!(dataset.named_folders(), Vec::<String>::new());
    let plain = ReadOptions { hive: Some(false), ..ReadOptions::default() };
    assert_eq!(open(folder.path(), &plain).unwrap().named_folders(), ["year"]);
}
