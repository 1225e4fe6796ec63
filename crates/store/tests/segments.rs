//! Segments return the records that were written, for every type, slice and read path.

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::ipc::reader::FileReader;
use euphrates_device::disk::{Disk, Mode};
use euphrates_flow::{Cancel, Kind};
use euphrates_store::append::AppendTurn;
use euphrates_store::segment::{
    BlockCompression, BlockReadOptions, Segment, SegmentOptions, SegmentWriter, SharedSegment,
};

/// A batch with one column for each kind of memory layout.
fn motley(rows: usize) -> RecordBatch {
    let some = |at: usize| !at.is_multiple_of(3);
    let text = |at: usize| some(at).then(|| format!("text number {at} that is not short"));
    let numbers = |n: usize| (0..n).map(|at| some(at).then_some(at as i32)).collect::<Vec<_>>();
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in 0..rows {
        (0..row % 4).for_each(|value| lists.values().append_value(value as i64));
        lists.append(some(row));
    }
    let pair = StructArray::from(vec![(
        Arc::new(Field::new("inner", DataType::Int32, true)),
        Arc::new(Int32Array::from(numbers(rows))) as ArrayRef,
    )]);
    let bytes = (0..rows).map(|at| some(at).then(|| (at as u64).to_le_bytes()));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int", Arc::new(Int32Array::from(numbers(rows)))),
        (
            "bool",
            Arc::new((0..rows).map(|at| some(at).then_some(at % 2 == 0)).collect::<BooleanArray>()),
        ),
        ("text", Arc::new((0..rows).map(text).collect::<StringArray>())),
        ("large", Arc::new((0..rows).map(text).collect::<LargeStringArray>())),
        ("view", Arc::new((0..rows).map(text).collect::<StringViewArray>())),
        (
            "bytes",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 8).unwrap()),
        ),
        ("list", Arc::new(lists.finish())),
        ("struct", Arc::new(pair)),
        ("null", Arc::new(NullArray::new(rows))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn with_dictionary(rows: usize, words: usize) -> RecordBatch {
    let values: DictionaryArray<Int32Type> = (0..rows)
        .map(|at| Some(format!("word {}", at % words)))
        .collect::<Vec<_>>()
        .iter()
        .map(|word| word.as_deref())
        .collect();
    RecordBatch::try_from_iter([("word", Arc::new(values) as ArrayRef)]).unwrap()
}

fn written(disk: &Disk, name: &str, batches: &[RecordBatch], options: SegmentOptions) -> Segment {
    let path = disk.folder().join(name);
    let mut writer = SegmentWriter::create(disk, &path, batches[0].schema_ref(), options).unwrap();
    for batch in batches {
        assert_eq!(writer.append(batch).unwrap().rows, batch.num_rows() as u64);
    }
    writer.finish().unwrap()
}

fn disk(folder: &Path, mode: Mode) -> Disk {
    Disk::new("test", folder, mode).unwrap()
}

#[test]
fn segments_round_trip_every_type_slice_compression_and_read_path() {
    let folder = tempfile::tempdir().unwrap();
    let whole = motley(1000);
    let batches =
        [whole.clone(), whole.slice(0, 0), whole.slice(13, 501), whole.slice(999, 1), motley(3)];
    for compression in [None, Some(BlockCompression::Lz4), Some(BlockCompression::Zstd)] {
        for mode in [Mode::Auto, Mode::Direct, Mode::Buffered] {
            let disk = disk(folder.path(), mode);
            let options = SegmentOptions { compression, scratch: false };
            let name = format!("{compression:?}-{mode:?}.arrow");
            written(&disk, &name, &batches, options);
            let path = folder.path().join(name);
            let segment = Arc::new(Segment::open(&disk, &path).unwrap());
            assert_eq!(segment.rows(), 1505);
            assert_eq!(segment.verify().unwrap(), vec![]);
            for request_bytes_max in [1, 100_000, 4 << 20] {
                let options = BlockReadOptions { request_bytes_max, ..BlockReadOptions::default() };
                let read: Vec<_> = segment.read_with(0..5, options).map(Result::unwrap).collect();
                assert_eq!(read, batches, "{compression:?} {mode:?} {request_bytes_max}");
            }
            let file = FileReader::try_new(std::fs::File::open(&path).unwrap(), None).unwrap();
            assert_eq!(file.map(Result::unwrap).collect::<Vec<_>>(), batches);
        }
    }
}

#[test]
fn slice_is_written_without_the_rest_of_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let slice = motley(100_000).slice(70_000, 10);
    let segment =
        written(&disk(folder.path(), Mode::Auto), "s", &[slice], SegmentOptions::default());
    assert!(segment.bytes() < 20_000, "{}", segment.bytes());
}

#[test]
fn blocks_carry_their_own_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let batches = [with_dictionary(100, 3), with_dictionary(50, 50), with_dictionary(10, 1)];
    let options = SegmentOptions::default();
    let segment = Arc::new(written(&disk(folder.path(), Mode::Auto), "d", &batches, options));
    for from in 0..3 {
        let read: Vec<_> = segment.read(from..3).map(Result::unwrap).collect();
        assert_eq!(read, batches[from..]);
    }
}

#[test]
fn columns_are_selectable_and_empty_segments_readable() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), Mode::Auto);
    let batch = motley(10);
    let segment =
        Arc::new(written(&disk, "c", std::slice::from_ref(&batch), SegmentOptions::default()));
    let options = BlockReadOptions { columns: Some(vec![5, 0]), ..BlockReadOptions::default() };
    let read = segment.read_with(0..1, options).next().unwrap().unwrap();
    assert_eq!(read, batch.project(&[5, 0]).unwrap());
    let none = SegmentWriter::create(
        &disk,
        &folder.path().join("e"),
        batch.schema_ref(),
        SegmentOptions::default(),
    );
    let none = Arc::new(none.unwrap().finish().unwrap());
    assert_eq!((none.rows(), none.read(0..0).count()), (0, 0));
    let file = std::fs::File::open(folder.path().join("e")).unwrap();
    assert_eq!(FileReader::try_new(file, None).unwrap().count(), 0);
}

#[test]
fn rows_without_columns_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let rows = RecordBatchOptions::new().with_row_count(Some(7));
    let batch =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &rows).unwrap();
    let options = SegmentOptions::default();
    let segment = Arc::new(written(&disk(folder.path(), Mode::Auto), "n", &[batch], options));
    assert_eq!(segment.read(0..1).next().unwrap().unwrap().num_rows(), 7);
}

#[test]
fn scratch_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), Mode::Auto);
    let options = SegmentOptions { scratch: true, ..SegmentOptions::default() };
    let segment = Arc::new(written(&disk, "run", &[motley(100)], options));
    let mut reader = segment.read(0..1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no table of contents");
    assert_eq!(reader.next().unwrap().unwrap(), motley(100));
    drop((reader, segment));
    let begun =
        SegmentWriter::create(&disk, &folder.path().join("begun"), &motley(0).schema(), options);
    drop(begun.unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn several_writers_fill_one_segment_in_run_order() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), Mode::Auto);
    let numbers = |from: i32| {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(from..from + 10));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let schema = numbers(0).schema();
    let path = folder.path().join("shared");
    let shared = SharedSegment::create(&disk, &path, &schema, SegmentOptions::default()).unwrap();
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (shared, cancel) = (&shared, &cancel);
            scope.spawn(move || {
                let mut encoder = shared.encoder().unwrap();
                for run in (thread..60).step_by(3) {
                    for half in 0..2 {
                        let block = encoder.encode(&numbers((run as i32 * 2 + half) * 10)).unwrap();
                        shared
                            .append(Some(AppendTurn { run, last: false }), &block, cancel)
                            .unwrap();
                    }
                    shared.end_run(run, cancel).unwrap();
                }
            });
        }
    });
    let segment = Arc::new(shared.finish().unwrap());
    let read: Vec<i32> = segment
        .read(0..120)
        .flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int32Type>().values().to_vec())
        .collect();
    assert!(read.into_iter().eq(0..1200));
}

#[test]
fn batch_of_another_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), Mode::Auto);
    let path = folder.path().join("x");
    let schema = motley(0).schema();
    let mut writer =
        SegmentWriter::create(&disk, &path, &schema, SegmentOptions::default()).unwrap();
    assert_eq!(writer.append(&with_dictionary(1, 1)).unwrap_err().kind(), Kind::Failed);
}

#[test]
fn value_equal_to_a_message_prefix_is_written() {
    // Eight bytes of ones begin every message, and are the number -1.
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000)]));
    let orders = [[("n", numbers.clone()), ("s", texts.clone())], [("s", texts), ("n", numbers)]];
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), Mode::Auto);
    for (name, columns) in ["first", "last"].into_iter().zip(orders) {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        written(&disk, name, std::slice::from_ref(&batch), SegmentOptions::default());
        let segment = Arc::new(Segment::open(&disk, &folder.path().join(name)).unwrap());
        let read: Vec<_> =
            segment.read_with(0..1, BlockReadOptions::default()).map(Result::unwrap).collect();
        assert_eq!(read, [batch]);
    }
}
