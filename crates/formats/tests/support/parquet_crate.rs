//! Compares files with those of the `parquet` crate.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_formats::{ReadOptions, WriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use super::{encoded, open, read_all};

/// The batch and the footer that the crate reads from a file.
pub fn read_by_crate(file: &[u8]) -> (RecordBatch, Arc<ParquetMetaData>) {
    let (read, metadata) = batches_by_crate(file);
    (concat_batches(read[0].schema_ref(), &read).unwrap(), metadata)
}

/// The batches and the footer that the crate reads from a file.
pub fn batches_by_crate(file: &[u8]) -> (Vec<RecordBatch>, Arc<ParquetMetaData>) {
    let bytes = Bytes::copy_from_slice(file);
    let options = ArrowReaderOptions::new().with_encoding_stats_as_mask(false);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap();
    let metadata = builder.metadata().clone();
    (builder.build().unwrap().map(Result::unwrap).collect(), metadata)
}

/// Compares rows without concatenating them: Arrow refuses to where a null covers a required field
/// several levels below.
fn assert_same_rows(found: &[RecordBatch], expected: &[RecordBatch], reader: &str) {
    let mut found = found.iter().filter(|batch| batch.num_rows() > 0).cloned();
    let mut rest: Option<RecordBatch> = None;
    for batch in expected {
        let mut begin = 0;
        while begin < batch.num_rows() {
            let next = rest.take().or_else(|| found.next()).expect("all rows are found");
            let rows = next.num_rows().min(batch.num_rows() - begin);
            let (ours, theirs) = (next.slice(0, rows), batch.slice(begin, rows));
            assert_eq!(ours.columns(), theirs.columns(), "{reader}");
            let left = next.num_rows() - rows;
            rest = (left > 0).then(|| next.slice(rows, left));
            begin += rows;
        }
    }
    assert!(rest.is_none() && found.next().is_none(), "no row is found twice");
}

/// The file that the crate writes, with a row group for every two batches.
pub fn written_by_crate(batches: &[RecordBatch]) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let schema = batches[0].schema();
    let mut writer = ArrowWriter::try_new(vec![], schema, Some(properties)).unwrap();
    for pair in batches.chunks(2) {
        pair.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

/// The column chunks of all row groups.
pub fn columns(metadata: &ParquetMetaData) -> impl Iterator<Item = &ColumnChunkMetaData> {
    metadata.row_groups().iter().flat_map(|group| group.columns())
}

/// Writes batches here and by the crate: both readers return them, and the statistics are the same.
pub fn check(batches: &[RecordBatch]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let file = encoded("a.parquet", batches, 2, &WriteOptions::default()).unwrap();
    std::fs::write(&path, &file).unwrap();
    let (found, metadata) = batches_by_crate(&file);
    assert_same_rows(&found, batches, "by the crate");
    let found = read_all(&open(&path, &ReadOptions::default()).unwrap()).unwrap();
    assert_same_rows(&found, batches, "by us");
    let (_, reference) = batches_by_crate(&written_by_crate(batches));
    assert_eq!(metadata.num_row_groups(), reference.num_row_groups());
    for (found, expected) in columns(&metadata).zip(columns(&reference)) {
        assert_eq!(found.statistics(), expected.statistics(), "{}", found.column_path());
        assert_eq!(found.num_values(), expected.num_values());
        assert_eq!(
            found.unencoded_byte_array_data_bytes(),
            expected.unencoded_byte_array_data_bytes()
        );
    }
}

/// The definition levels, repetition levels and number of values of all column chunks.
pub fn levels(file: &[u8]) -> Vec<(Vec<i16>, Vec<i16>, usize)> {
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(file)).unwrap();
    let groups = 0..reader.num_row_groups();
    let chunks = groups.flat_map(|group| {
        let group = reader.get_row_group(group).unwrap();
        let columns = 0..group.num_columns();
        columns.map(|leaf| levels_of(group.get_column_reader(leaf).unwrap())).collect::<Vec<_>>()
    });
    chunks.collect()
}

fn levels_of(column: ColumnReader) -> (Vec<i16>, Vec<i16>, usize) {
    match column {
        ColumnReader::BoolColumnReader(column) => read_levels(column),
        ColumnReader::Int32ColumnReader(column) => read_levels(column),
        ColumnReader::Int64ColumnReader(column) => read_levels(column),
        ColumnReader::Int96ColumnReader(column) => read_levels(column),
        ColumnReader::FloatColumnReader(column) => read_levels(column),
        ColumnReader::DoubleColumnReader(column) => read_levels(column),
        ColumnReader::ByteArrayColumnReader(column) => read_levels(column),
        ColumnReader::FixedLenByteArrayColumnReader(column) => read_levels(column),
    }
}

fn read_levels<T: DataType>(mut column: ColumnReaderImpl<T>) -> (Vec<i16>, Vec<i16>, usize) {
    let (mut definition, mut repetition, mut values) = (vec![], vec![], vec![]);
    let (definitions, repetitions) = (Some(&mut definition), Some(&mut repetition));
    column.read_records(usize::MAX, definitions, repetitions, &mut values).unwrap();
    (definition, repetition, values.len())
}
