//! What a scan reads and leaves out, in words for explanations and reports.

use euphrates_formats::Dataset;

pub(crate) fn columns_read(dataset: &Dataset) -> Vec<String> {
    let (read, all) = (dataset.schema().fields().len(), dataset.all_columns().fields().len());
    (read < all).then(|| format!("read {read} of {all} columns")).into_iter().collect()
}

/// The columns by which rows are left out before the others are decoded.
pub(crate) fn decoded_first(dataset: &Dataset) -> Option<String> {
    let name = |column: &usize| dataset.schema().field(*column).name().as_str();
    let names: Vec<&str> = dataset
        .filtered_by()
        .iter()
        .filter(|column| !dataset.is_in_path(**column))
        .map(name)
        .collect();
    (!names.is_empty()).then(|| format!("decode {} first", names.join(", ")))
}

pub(crate) fn files_left_out(dataset: &Dataset) -> Option<String> {
    let (files, all) = dataset.file_counts();
    (files < all).then(|| format!("skipped {} of {all} files", all - files))
}

pub(crate) fn skipped(dataset: &Dataset) -> Option<String> {
    let (skipped, all) = (dataset.splits_skipped(), dataset.splits_all());
    (skipped > 0).then(|| format!("skipped {skipped} of {all} row groups"))
}
