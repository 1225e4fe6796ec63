//! Encodes tables as Parquet here and by the `parquet` crate, in turns, and prints the medians:
//! `cargo run --release -p euphrates-formats --example parquet_write_speed [rows] [turns]`.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use euphrates_formats::{Compression, WriteOptions, format_of};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// Rows that are encoded together: a batch, and a row group.
const BATCH_ROWS: usize = 16 << 10;
const GROUP_ROWS: usize = 512 << 10;

fn mixed(value: usize) -> u64 {
    let mixed = (value as u64 ^ 0x5bd1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

fn numbers(rows: std::ops::Range<usize>, distinct: u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.map(|row| (mixed(row) % distinct) as i64)))
}

fn words(rows: std::ops::Range<usize>) -> ArrayRef {
    let word = |row: usize| format!("word {}", mixed(row) % 5000);
    Arc::new(StringArray::from_iter_values(rows.map(word)))
}

fn offsets(rows: std::ops::Range<usize>) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(rows.map(|row| (mixed(row) >> 7) as usize % 9))
}

fn list(
    rows: std::ops::Range<usize>,
    element: impl Fn(std::ops::Range<usize>) -> ArrayRef,
) -> ArrayRef {
    let offsets = offsets(rows.clone());
    let first = rows.start * 8;
    let elements = element(first..first + *offsets.last().unwrap() as usize);
    let field = Arc::new(Field::new("item", elements.data_type().clone(), true));
    Arc::new(ListArray::new(field, offsets, elements, None))
}

fn record(columns: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let fields =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let fields: Fields = fields.collect();
    Arc::new(StructArray::new(
        fields,
        columns.into_iter().map(|(_, column)| column).collect(),
        None,
    ))
}

type Make = fn(std::ops::Range<usize>) -> ArrayRef;

fn tables() -> [(&'static str, Make); 8] {
    [
        ("int64", |rows| numbers(rows, u64::MAX)),
        ("int64 of 1000 values", |rows| numbers(rows, 1000)),
        ("string of 5000 values", words),
        ("boolean", |rows| {
            Arc::new(rows.map(|row| Some(mixed(row) & 1 > 0)).collect::<BooleanArray>())
        }),
        ("list<int64>, 0 to 8", |rows| list(rows, |inside| numbers(inside, u64::MAX))),
        ("list<int64 of 1000 values>", |rows| list(rows, |inside| numbers(inside, 1000))),
        ("struct<int64, string, int64>", |rows| {
            let (some, few) = (numbers(rows.clone(), u64::MAX), numbers(rows.clone(), 1000));
            record(vec![("a", some), ("b", words(rows)), ("c", few)])
        }),
        ("list<struct<string, int64>>", |rows| {
            list(rows, |inside| {
                record(vec![("a", words(inside.clone())), ("b", numbers(inside, u64::MAX))])
            })
        }),
    ]
}

/// The bytes of the file that is encoded here.
fn here(batches: &[RecordBatch], compression: Compression) -> usize {
    let options = WriteOptions { compression: Some(compression), ..WriteOptions::default() };
    let format = format_of("a.parquet", None).unwrap();
    let writer = format.writer(batches[0].schema_ref(), &options).unwrap();
    let (mut bytes, mut notes) = (4, vec![]);
    let mut encoder = writer.encoder().unwrap();
    for group in batches.chunks(GROUP_ROWS / BATCH_ROWS) {
        group.iter().for_each(|batch| encoder.push(batch).unwrap());
        let chunk = encoder.finish().unwrap();
        notes.push((bytes as u64, chunk.note));
        bytes += chunk.parts.iter().map(|part| part.len()).sum::<usize>();
    }
    bytes + writer.footer(notes).unwrap().iter().map(|part| part.len()).sum::<usize>()
}

/// The bytes of the file that the crate encodes.
fn by_crate(batches: &[RecordBatch], compression: Compression) -> usize {
    let codec = match compression {
        Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        _ => Codec::UNCOMPRESSED,
    };
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let schema = batches[0].schema();
    let mut writer = ArrowWriter::try_new(vec![], schema, Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap().len()
}

fn main() {
    let mut given = std::env::args().skip(1).map(|number| number.parse().expect("a number"));
    let rows: usize = given.next().unwrap_or(2_000_000);
    let turns: usize = given.next().unwrap_or(5);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{rows} rows, medians of {turns} turns").unwrap();
    for (name, make) in tables() {
        let begins = (0..rows).step_by(BATCH_ROWS);
        let batch = |begin: usize| {
            let column = make(begin..rows.min(begin + BATCH_ROWS));
            RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap()
        };
        let batches: Vec<RecordBatch> = begins.map(batch).collect();
        for compression in [Compression::None, Compression::Zstd] {
            let mut seconds = [vec![], vec![]];
            let mut bytes = [0, 0];
            for _ in 0..turns {
                for (at, encode) in [here, by_crate].into_iter().enumerate() {
                    let begun = Instant::now();
                    bytes[at] = encode(&batches, compression);
                    seconds[at].push(begun.elapsed().as_secs_f64());
                }
            }
            seconds.iter_mut().for_each(|seconds| seconds.sort_by(f64::total_cmp));
            let [ours, theirs] = seconds.map(|seconds| seconds[turns / 2] * 1e3);
            writeln!(
                out,
                "{name:32} {compression:?}: here {ours:.0} ms, {} bytes; crate {theirs:.0} ms, \
                 {} bytes; {:.1} times",
                bytes[0],
                bytes[1],
                theirs / ours
            )
            .unwrap();
        }
    }
}
