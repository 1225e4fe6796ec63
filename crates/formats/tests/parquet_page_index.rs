//! Compares the page index of files written here with the rows of each page, and reads by it.

mod support;

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use euphrates_formats::WriteOptions;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::basic::BoundaryOrder;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use proptest::prelude::*;
use support::encoded;
use support::parquet_crate::*;

fn builder(file: &[u8]) -> ParquetRecordBatchReaderBuilder<Bytes> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let bytes = Bytes::copy_from_slice(file);
    ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).unwrap()
}

fn written(batches: &[RecordBatch], per_group: usize) -> (Vec<u8>, Arc<ParquetMetaData>) {
    let file = encoded("a.parquet", batches, per_group, &WriteOptions::default()).unwrap();
    let metadata = builder(&file).metadata().clone();
    (file, metadata)
}

/// Minimum, maximum and whether there is no value, for each page.
fn bounds(index: &ColumnIndexMetaData) -> Vec<[Option<Vec<u8>>; 2]> {
    macro_rules! plain {
        ($index:expr) => {
            (0..$index.num_pages() as usize)
                .map(|page| {
                    let bound = |value: Option<_>| value.map(|value| plain_bytes(&value));
                    [bound($index.min_value(page).cloned()), bound($index.max_value(page).cloned())]
                })
                .collect()
        };
    }
    use parquet::data_type::AsBytes;
    fn plain_bytes(value: &impl AsBytes) -> Vec<u8> {
        value.as_bytes().to_vec()
    }
    match index {
        ColumnIndexMetaData::BOOLEAN(index) => plain!(index),
        ColumnIndexMetaData::INT32(index) => plain!(index),
        ColumnIndexMetaData::INT64(index) => plain!(index),
        ColumnIndexMetaData::FLOAT(index) => plain!(index),
        ColumnIndexMetaData::DOUBLE(index) => plain!(index),
        ColumnIndexMetaData::BYTE_ARRAY(index)
        | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => (0..index.num_pages() as usize)
            .map(|page| [index.min_value(page), index.max_value(page)].map(|b| b.map(Vec::from)))
            .collect(),
        other => panic!("no type of ours: {other:?}"),
    }
}

/// The bounds and null counts of every page equal the statistics that the crate computes of the
/// page's rows alone; there is no column index if the crate finds no bounds for some page.
fn check_pages(batches: &[RecordBatch]) {
    let (_, metadata) = written(batches, batches.len());
    let all = concat_batches(batches[0].schema_ref(), batches).unwrap();
    let offset_index = metadata.offset_index().unwrap();
    assert_eq!(metadata.num_row_groups(), 1);
    let descr = metadata.file_metadata().schema_descr();
    for (leaf, offsets) in offset_index[0].iter().enumerate() {
        let field = all.project(&[descr.get_column_root_idx(leaf)]).unwrap();
        let mut sibling = (0..leaf).rev();
        let within = sibling
            .by_ref()
            .take_while(|other| {
                descr.get_column_root_idx(*other) == descr.get_column_root_idx(leaf)
            })
            .count();
        let begins = offsets.page_locations().iter().map(|page| page.first_row_index as usize);
        let ends = begins.clone().skip(1).chain([all.num_rows()]);
        let mut expected = vec![];
        let (mut nulls, mut is_known) = (vec![], true);
        for (begin, end) in begins.zip(ends) {
            let page = field.slice(begin, end - begin);
            let (_, reference) = batches_by_crate(&written_by_crate(&[page]));
            let column = reference.row_group(0).column(within);
            let statistics = column.statistics().unwrap();
            let count = statistics.null_count_opt().unwrap();
            is_known &= statistics.min_bytes_opt().is_some() || count == column.num_values() as u64;
            nulls.push(count as i64);
            let bounds = [statistics.min_bytes_opt(), statistics.max_bytes_opt()];
            expected.push(bounds.map(|bound| bound.map(Vec::from)));
        }
        let has_index = metadata.row_group(0).column(leaf).column_index_offset().is_some();
        assert_eq!(has_index, is_known, "{}", descr.column(leaf).path());
        if has_index {
            let index = &metadata.column_index().unwrap()[0][leaf];
            assert_eq!(bounds(index), expected, "{}", descr.column(leaf).path());
            assert_eq!(index.null_counts(), Some(&nulls));
        }
    }
}

fn number(seed: u64, row: usize) -> u64 {
    let mixed = (seed ^ row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 7
}

/// Columns of several pages: plain and with dictionaries, flat and nested, some pages without
/// values.
fn batch(seed: u64, rows: usize) -> RecordBatch {
    let draw = |row: usize| number(seed, row);
    let is_null = |row: usize| row / 40_000 % 3 == 1 || draw(row).is_multiple_of(5);
    let some = |row: usize| (!is_null(row)).then(|| draw(row));
    let texts = |row: usize| {
        let long = "é".repeat((draw(row) % 50) as usize);
        some(row).map(|draw| format!("{}{long}{draw}", draw % 10))
    };
    let wide = |row: usize| some(row).map(|draw| draw.to_be_bytes().repeat(9));
    let float = |row: usize| match draw(row) % 4 {
        0 => f64::NAN,
        1 => 0.0,
        _ => draw(row) as f64 - 1e10,
    };
    let mut lists = ListBuilder::new(StructBuilder::from_fields(
        vec![Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)],
        0,
    ));
    for row in 0..rows {
        let items = lists.values();
        for at in 0..draw(row) as usize % 4 {
            let word = format!("word {}", draw(row + at) % 300);
            let numbers = items.field_builder::<Int64Builder>(0).unwrap();
            numbers.append_option(some(row + at).map(|draw| draw as i64));
            items.field_builder::<StringBuilder>(1).unwrap().append_value(word);
            items.append(at != 2);
        }
        lists.append(!is_null(row));
    }
    let rows = 0..rows;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "plain",
            Arc::new(rows.clone().map(|r| some(r).map(|d| d as i64)).collect::<Int64Array>()),
        ),
        (
            "coded",
            Arc::new(rows.clone().map(|r| some(r).map(|d| d as i32 % 90)).collect::<Int32Array>()),
        ),
        (
            "unsigned",
            Arc::new(rows.clone().map(|r| some(r).map(|d| d << 7)).collect::<UInt64Array>()),
        ),
        ("float", Arc::new(rows.clone().map(|r| Some(float(r))).collect::<Float64Array>())),
        (
            "bool",
            Arc::new(rows.clone().map(|r| some(r).map(|d| d & 1 > 0)).collect::<BooleanArray>()),
        ),
        ("text", Arc::new(rows.clone().map(texts).collect::<StringArray>())),
        (
            "wide",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows.map(wide), 72).unwrap(),
            ),
        ),
        ("list", Arc::new(lists.finish())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn page_bounds_are_the_statistics_of_the_rows_of_each_page(seed: u64) {
        check_pages(&[batch(seed, 70_000), batch(!seed, 90_000)]);
    }

    #[test]
    fn selected_rows_are_those_of_the_whole(
        seed: u64,
        runs in prop::collection::vec((1usize..50_000, any::<bool>()), 1..12),
    ) {
        let batches = [batch(seed, 80_000), batch(!seed, 60_000), batch(seed ^ 1, 30_000)];
        let all = concat_batches(batches[0].schema_ref(), &batches).unwrap();
        let (file, _) = written(&batches, 2);
        let (mut selectors, mut expected, mut at) = (vec![], vec![], 0);
        for (rows, is_selected) in runs {
            let rows = rows.min(all.num_rows() - at);
            match is_selected {
                true => {
                    selectors.push(RowSelector::select(rows));
                    expected.push(all.slice(at, rows));
                }
                false => selectors.push(RowSelector::skip(rows)),
            }
            at += rows;
        }
        let reader = builder(&file).with_row_selection(RowSelection::from(selectors));
        let found: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        let found = concat_batches(all.schema_ref(), &found).unwrap();
        assert!(found == concat_batches(all.schema_ref(), &expected).unwrap());
    }
}

/// A file with one column of these values.
fn one_column(column: impl Array + 'static) -> Arc<ParquetMetaData> {
    let batch = RecordBatch::try_from_iter([("c", Arc::new(column) as ArrayRef)]).unwrap();
    written(&[batch], 1).1
}

#[test]
fn order_of_page_bounds_is_recorded() {
    let rows = 200_000i64;
    let order = |value: fn(i64) -> Option<i64>| {
        let metadata = one_column((0..rows).map(value).collect::<Int64Array>());
        let index = &metadata.column_index().unwrap()[0][0];
        assert!(index.num_pages() > 2);
        index.get_boundary_order().unwrap()
    };
    assert_eq!(order(|row| Some(row - 100_000)), BoundaryOrder::ASCENDING);
    assert_eq!(order(|row| Some(-row)), BoundaryOrder::DESCENDING);
    assert_eq!(order(|row| Some(row % 150_000)), BoundaryOrder::UNORDERED);
    // Pages of nulls have no place in the order.
    let with_gap = order(|row| (!(60_000..140_000).contains(&row)).then_some(row));
    assert_eq!(with_gap, BoundaryOrder::ASCENDING);
    assert_eq!(order(|_| None), BoundaryOrder::ASCENDING);
}

#[test]
fn pages_without_known_bounds_have_an_offset_index_alone() {
    let nan = Float64Array::from_iter(
        (0..200_000).map(|row| if row < 100_000 { Some(f64::NAN) } else { Some(1.0) }),
    );
    let unbounded = BinaryArray::from_iter_values((0..10).map(|_| vec![255u8; 400]));
    let rare = Float16Array::from_iter_values((0..10).map(|_| Default::default()));
    for metadata in [one_column(nan), one_column(unbounded), one_column(rare)] {
        let column = metadata.row_group(0).column(0);
        assert!(column.column_index_offset().is_none() && column.offset_index_offset().is_some());
    }
}
