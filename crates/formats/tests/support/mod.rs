//! Writes and reads files as `save` and `scan` do.

#![allow(dead_code)]

pub mod parquet_crate;

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::Buffer;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_flow::Result;
use euphrates_formats::{Dataset, ReadLimits, ReadOptions, WriteOptions, format_of};

/// The bytes of a file with these batches, `per_chunk` of them encoded together.
pub fn encoded(
    name: &str,
    batches: &[RecordBatch],
    per_chunk: usize,
    options: &WriteOptions,
) -> Result<Vec<u8>> {
    let writer = format_of(name, None)?.writer(batches[0].schema_ref(), options)?;
    let mut bytes: Vec<u8> = writer.header()?.iter().flat_map(|part| part.to_vec()).collect();
    let mut notes = vec![];
    let mut encoder = writer.encoder()?;
    for chunk in batches.chunks(per_chunk) {
        for batch in chunk {
            encoder.push(batch)?;
        }
        let chunk = encoder.finish()?;
        notes.push((bytes.len() as u64, chunk.note));
        chunk.parts.iter().for_each(|part| bytes.extend_from_slice(part));
    }
    writer.footer(notes)?.iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes)
}

pub fn open(path: &Path, options: &ReadOptions) -> Result<Dataset> {
    Dataset::open(&[path.display().to_string()], options)
}

/// All batches in order.
pub fn read_all(dataset: &Dataset) -> Result<Vec<RecordBatch>> {
    let mut all = vec![];
    for split in 0..dataset.splits() {
        for batch in dataset.read(split, &ReadLimits::default())? {
            all.push(batch?);
        }
    }
    Ok(all)
}

/// The whole file as one batch.
pub fn decoded(path: &Path, options: &ReadOptions) -> Result<RecordBatch> {
    let dataset = open(path, options)?;
    Ok(concat_batches(dataset.schema(), &read_all(&dataset)?)?)
}

/// Writes a file and reads it back.
pub fn through(
    folder: &Path,
    name: &str,
    batches: &[RecordBatch],
    options: &WriteOptions,
) -> Result<RecordBatch> {
    let path = folder.join(name);
    std::fs::write(&path, encoded(name, batches, 2, options)?).unwrap();
    decoded(&path, &ReadOptions::default())
}

/// Columns of every type that all typed formats can hold.
pub fn motley(rows: usize) -> RecordBatch {
    let some = |at: usize| !at.is_multiple_of(3);
    let ints: Vec<Option<i64>> = (0..rows).map(|at| some(at).then_some(at as i64 - 5)).collect();
    let small: Vec<Option<i32>> = ints.iter().map(|v| v.map(|v| v as i32)).collect();
    let wide: Vec<Option<i128>> = ints.iter().map(|v| v.map(|v| v as i128 * 100)).collect();
    let text = |at: usize| some(at).then(|| format!("text {at}, \"quoted\"\nand cut"));
    let fixed = (0..rows).map(|at| some(at).then(|| (at as u64).to_le_bytes()));
    let whole = (0..rows).flat_map(|at| (at as u32).to_le_bytes());
    let words: Vec<Option<String>> =
        (0..rows).map(|at| some(at).then(|| format!("word {}", at % 7))).collect();
    let dictionary: DictionaryArray<Int32Type> = words.iter().map(Option::as_deref).collect();
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in 0..rows {
        (0..row % 4).for_each(|value| lists.values().append_value(value as i64));
        lists.append(some(row));
    }
    let inner: ArrayRef = Arc::new(Int32Array::from(small.clone()));
    let pair = StructArray::from(vec![(Arc::new(Field::new("in", DataType::Int32, true)), inner)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int", Arc::new(Int64Array::from(ints.clone()))),
        ("bool", Arc::new(ints.iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>())),
        (
            "float",
            Arc::new(ints.iter().map(|v| v.map(|v| v as f64 / 3.0)).collect::<Float64Array>()),
        ),
        ("text", Arc::new((0..rows).map(text).collect::<StringArray>())),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8).unwrap()),
        ),
        (
            "key",
            Arc::new(FixedSizeBinaryArray::new(
                4,
                Buffer::from_vec(whole.collect::<Vec<u8>>()),
                None,
            )),
        ),
        ("date", Arc::new(Date32Array::from(small.clone()))),
        ("time", Arc::new(TimestampMicrosecondArray::from(ints.clone()).with_timezone("UTC"))),
        ("money", Arc::new(Decimal128Array::from(wide).with_precision_and_scale(15, 2).unwrap())),
        ("word", Arc::new(dictionary)),
        ("list", Arc::new(lists.finish())),
        ("struct", Arc::new(pair)),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), *name != "key"))
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Columns that CSV and JSON lines return with the same types.
pub fn plain(rows: usize) -> RecordBatch {
    motley(rows).project(&[0, 1, 2, 3, 6]).unwrap()
}

/// Benchmark records: key and payload.
pub fn records(rows: usize) -> RecordBatch {
    let bytes = |width: usize| {
        let values = (0..rows).map(move |at| {
            let mut value = vec![b' '; width];
            value[..8]
                .copy_from_slice(&(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            value
        });
        Arc::new(FixedSizeBinaryArray::try_from_iter(values).unwrap()) as ArrayRef
    };
    let fields = vec![
        Field::new("key", DataType::FixedSizeBinary(10), false),
        Field::new("payload", DataType::FixedSizeBinary(90), false),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![bytes(10), bytes(90)]).unwrap()
}

/// Lines of text as `lines` reads them.
pub fn lines(rows: usize) -> RecordBatch {
    let text: Vec<String> = (0..rows).map(|at| "x\r,".repeat(at % 5)).collect();
    let column: ArrayRef =
        Arc::new(BinaryArray::from_iter_values(text.iter().map(|line| line.as_bytes())));
    RecordBatch::try_from_iter([("line", column)]).unwrap()
}
