//! Columns whose values are in the names of folders (`city=Ur/`), one value for each file.
//!
//! All values of a column decide its type: integers if each is one as it would be printed, dates,
//! else texts. So `007` stays a text, and nothing is lost.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Date32Array, Int64Array, StringArray, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, FieldRef};
use euphrates_device::location::FileRef;
use euphrates_flow::{Error, Result};

use super::hive::parse_folder;
use crate::options::{ReadOptions, type_named};
use crate::predicate::{RowPredicate, StoredBounds, may_pass_each};
use crate::values::iso8601::parse_usual_date;

/// The columns of a table in the paths of its files.
#[derive(Clone, Default)]
pub(super) struct HiveColumns {
    columns: Vec<(FieldRef, ArrayRef)>,
    files: usize,
}

type PathValues = Vec<(String, Option<String>)>;

impl HiveColumns {
    /// The columns in the folders of these files, unless they are not wanted. Fails if files have
    /// different ones, or if there are none and some are wanted.
    pub fn of(files: &[FileRef], options: &ReadOptions) -> Result<HiveColumns> {
        let Some(first) = files.first().filter(|_| options.hive != Some(false)) else {
            return Ok(HiveColumns::default());
        };
        let names = names_of(&path_values(first)?);
        let types = options.hive_types.iter().flatten();
        if let Some((name, _)) = types.clone().find(|(name, _)| !names.contains(name)) {
            let error = Error::usage(format!("no folder is like `{name}=value`"));
            return Err(error.at("hive_types").remedy(format!("known: {}", names.join(", "))));
        }
        if names.is_empty() && options.hive == Some(true) {
            let error = Error::usage(format!("no folder of {} is like `name=value`", first.name));
            return Err(error.remedy("leave out `hive`"));
        }
        let mut values: Vec<Vec<Option<String>>> =
            vec![Vec::with_capacity(files.len()); names.len()];
        for file in files {
            let found = path_values(file)?;
            if names_of(&found) != names {
                return Err(other_folders(first, file));
            }
            found.into_iter().zip(&mut values).for_each(|((_, value), all)| all.push(value));
        }
        let columns = names.into_iter().zip(values).map(|(name, values)| {
            let values = match types.clone().find(|(typed, _)| **typed == name) {
                None => typed(values),
                Some((_, wanted)) => converted(values, wanted)
                    .map_err(|error| error.at(format!("column `{name}`")))?,
            };
            Ok((Arc::new(Field::new(name, values.data_type().clone(), true)), values))
        });
        Ok(HiveColumns { columns: columns.collect::<Result<_>>()?, files: files.len() })
    }

    /// Those columns that are not in the files themselves.
    pub fn without(self, is_in_files: impl Fn(&str) -> bool) -> HiveColumns {
        let columns = self.columns.into_iter().filter(|(field, _)| !is_in_files(field.name()));
        HiveColumns { columns: columns.collect(), ..self }
    }

    /// These files alone, in this order.
    pub fn of_files(&self, kept: &[usize]) -> Result<HiveColumns> {
        let kept_at = UInt64Array::from_iter_values(kept.iter().map(|file| *file as u64));
        let taken = |(field, values): &(FieldRef, ArrayRef)| {
            Ok((field.clone(), arrow::compute::take(values, &kept_at, None)?))
        };
        let columns = self.columns.iter().map(taken).collect::<Result<_>>()?;
        Ok(HiveColumns { columns, files: kept.len() })
    }

    /// Names and types.
    pub fn fields(&self) -> impl Iterator<Item = &FieldRef> + Clone {
        self.columns.iter().map(|(field, _)| field)
    }

    /// Whether there is a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.fields().any(|field| field.name() == column)
    }

    /// The value of a column for all rows of a file, as an array of one; `None` if there is no such
    /// column.
    pub fn value(&self, column: &str, file: usize) -> Option<ArrayRef> {
        let (_, values) = self.columns.iter().find(|(field, _)| field.name() == column)?;
        Some(values.slice(file, 1))
    }

    /// For each file, whether any of its rows may pass a filter with this predicate.
    pub fn may_pass(&self, predicate: &RowPredicate) -> Vec<bool> {
        let stored = |name: &str| {
            let (_, values) = self.columns.iter().find(|(field, _)| field.name() == name)?;
            let nulls = (0..self.files).map(|file| u64::from(values.is_null(file)));
            Some(StoredBounds {
                least: values.clone(),
                greatest: values.clone(),
                nulls: nulls.collect(),
                may_be_nan: false,
            })
        };
        may_pass_each(predicate, &vec![1; self.files], stored)
    }
}

fn names_of(values: &PathValues) -> Vec<String> {
    values.iter().map(|(name, _)| name.clone()).collect()
}

/// What the folders of a file hold, the outermost first.
fn path_values(file: &FileRef) -> Result<PathValues> {
    let folders = file.name.rsplit_once('/').map_or("", |(folders, _)| folders);
    let mut values: PathValues = vec![];
    for (name, value) in folders.split('/').filter_map(parse_folder) {
        if values.iter().any(|(other, _)| *other == name) {
            let error = Error::usage(format!("two folders are named `{name}=…`")).at(&file.name);
            return Err(error.remedy("rename one, or read them with hive=False"));
        }
        values.push((name, value));
    }
    Ok(values)
}

fn other_folders(first: &FileRef, file: &FileRef) -> Error {
    let message =
        format!("the folders of {} name other columns than those of {}", file.name, first.name);
    Error::usage(message).remedy("read them apart, or with hive=False")
}

/// The values in the narrowest type that prints them as they are written.
fn typed(values: Vec<Option<String>>) -> ArrayRef {
    if values.iter().all(Option::is_none) {
        return Arc::new(StringArray::from(values));
    }
    if let Some(whole) = parsed(&values, whole) {
        return Arc::new(Int64Array::from(whole));
    }
    match parsed(&values, date) {
        Some(dates) => Arc::new(Date32Array::from(dates)),
        None => Arc::new(StringArray::from(values)),
    }
}

/// The values in a type that is given by name. Fails if one has no such value.
fn converted(values: Vec<Option<String>>, wanted: &str) -> Result<ArrayRef> {
    let texts: ArrayRef = Arc::new(StringArray::from(values));
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let converted = cast_with_options(&texts, &type_named(wanted)?, &options);
    converted.map_err(|error| Error::usage(error).remedy("give another type in `hive_types`"))
}

/// All values, parsed; `None` if one cannot be.
fn parsed<T>(
    values: &[Option<String>],
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let one = |value: &Option<String>| match value {
        None => Some(None),
        Some(text) => parse(text).map(Some),
    };
    values.iter().map(one).collect()
}

fn whole(text: &str) -> Option<i64> {
    text.parse().ok().filter(|value: &i64| value.to_string() == text)
}

fn date(text: &str) -> Option<i32> {
    i32::try_from(parse_usual_date(text.as_bytes())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    #[test]
    fn all_values_of_a_column_decide_its_type() {
        for (values, expected) in [
            (&["1", "-20", "0"][..], DataType::Int64),
            (&["1", "007"], DataType::Utf8),
            (&["1", "+2"], DataType::Utf8),
            (&["2024-01-31", "1999-12-01"], DataType::Date32),
            (&["2024-01-31", "2024-02-30"], DataType::Utf8),
            (&["2024-01-31", "1"], DataType::Utf8),
            (&["9223372036854775808"], DataType::Utf8),
            (&[""], DataType::Utf8),
        ] {
            let texts = values.iter().map(|text| Some(text.to_string())).chain([None]);
            assert_eq!(typed(texts.collect()).data_type(), &expected, "{values:?}");
        }
    }

    #[test]
    fn given_types_are_those_of_the_columns() {
        let values = || vec![Some("1".to_string()), None, Some("-20".to_string())];
        for (name, expected) in [("string", DataType::Utf8), ("int32", DataType::Int32)] {
            let found = converted(values(), name).unwrap();
            assert_eq!((found.data_type(), found.null_count()), (&expected, 1));
        }
        for name in ["date32", "bool", "no type"] {
            assert!(converted(values(), name).is_err(), "{name}");
        }
    }

    #[test]
    fn files_with_other_folders_are_refused_by_name() {
        let files = |paths: &[&str]| paths.iter().map(FileRef::local).collect::<Vec<_>>();
        let wanted = ReadOptions { hive: Some(true), ..ReadOptions::default() };
        let usual = ReadOptions::default();
        let both =
            HiveColumns::of(&files(&["/a/x=1/y=b/f.csv", "/a/x=2/y=c/f.csv"]), &wanted).unwrap();
        let names: Vec<&String> = both.fields().map(|field| field.name()).collect();
        assert_eq!(names, ["x", "y"]);
        let error = HiveColumns::of(&files(&["/a/x=1/f.csv", "/a/f.csv"]), &usual).err().unwrap();
        assert!(error.message().contains("/a/f.csv") && error.message().contains("/a/x=1/f.csv"));
        assert!(HiveColumns::of(&files(&["/a/f.csv"]), &wanted).is_err());
        assert!(HiveColumns::of(&files(&["/x=1/x=2/f.csv"]), &usual).is_err());
    }
}
