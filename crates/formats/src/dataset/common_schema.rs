//! The schema of a table in several files: what all agree on, projected to the wanted columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use euphrates_device::location::FileRef;
use euphrates_flow::check::names::unique;
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};

use super::hive_columns::HiveColumns;
use crate::columns_by_name::ColumnsByName;
use crate::format::{Format, OpenedFile, at};
use crate::options::ReadOptions;
use crate::schema_unification::concrete;

/// The schema of these files, which are in the order of `files`, and of the columns in their paths.
pub(super) fn schema_of_all(
    files: &[FileRef],
    opened: &[Arc<dyn OpenedFile>],
    hive: &HiveColumns,
    format: &dyn Format,
    options: &ReadOptions,
) -> Result<SchemaRef> {
    // Columns that are asked for are read, whichever file has them.
    let union_by_name = options.columns.as_ref().map_or(options.union_by_name, |_| Some(true));
    if format.about().infers_types
        && opened.iter().all(|opened| opened.schema().fields().is_empty())
    {
        if let Some(bare) = opened.iter().find_map(|opened| opened.fallback_schema()) {
            let bare = with_hive(&bare, hive)?;
            let schema = wanted_all(&bare, options).map_err(|error| at(error, &files[0].name))?;
            return Ok(Arc::new(schema));
        }
        let error = Error::usage("there is nothing in it to tell the columns from");
        return Err(error.at(&files[0].name).remedy("give files with at least a header or record"));
    }
    // The schema so far, with the first file that had one.
    let mut common: Option<(Schema, &str)> = None;
    for (file, opened) in files.iter().zip(opened) {
        if format.about().infers_types && opened.schema().fields().is_empty() {
            // The schema of an empty file is compatible with any other.
            continue;
        }
        unique(opened.schema()).map_err(|error| at(error, &file.name))?;
        let schema = wanted_of(opened.schema(), options.columns.as_deref());
        common = Some(match common {
            None => (schema, &file.name),
            Some((common, first)) => {
                let place = || format!("{} (first file: {first})", file.name);
                let differ = |error: Error| error.at(place());
                (format.unify(&common, &schema, union_by_name).map_err(differ)?, first)
            }
        });
    }
    let (schema, first) = common.expect("there is a file");
    let mut schema = with_hive(&schema, hive).map_err(|error| at(error, first))?;
    if let Some(columns) = &options.columns {
        let known = opened.iter().map(|opened| opened.schema().fields());
        let known = known.into_iter().find(|fields| !fields.is_empty());
        let known = known.into_iter().flatten().chain(hive.fields());
        let names = known.map(|field| field.name().as_str());
        schema = wanted(&schema, columns, names).map_err(|error| at(error, first))?;
    }
    Ok(Arc::new(if format.about().infers_types { concrete(&schema) } else { schema }))
}

/// The schema with the columns in the names of folders behind the others.
fn with_hive(schema: &Schema, hive: &HiveColumns) -> Result<Schema> {
    if let Some(field) = hive.fields().find(|field| schema.index_of(field.name()).is_ok()) {
        let name = field.name();
        let message = format!("`{name}` is a column of some files, and in the names of folders");
        return Err(Error::usage(message).remedy("read with hive=False, or rename the folders"));
    }
    let fields = schema.fields().iter().chain(hive.fields());
    Ok(Schema::new(fields.cloned().collect::<Vec<_>>()))
}

/// The projection of a file's schema to those columns that it has, without metadata.
fn wanted_of(schema: &Schema, columns: Option<&[String]>) -> Schema {
    let columns: Option<HashSet<&String>> = columns.map(|columns| columns.iter().collect());
    let is_wanted = |name: &String| columns.as_ref().is_none_or(|columns| columns.contains(name));
    let fields = schema.fields().iter().filter(|field| is_wanted(field.name()));
    Schema::new(fields.cloned().collect::<Vec<_>>())
}

/// The projection of a schema; fails if it lacks a column.
fn wanted_all(schema: &Schema, options: &ReadOptions) -> Result<Schema> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    match &options.columns {
        Some(columns) => wanted(schema, columns, names),
        None => Ok(schema.clone()),
    }
}

/// The projected columns in the order of the projection.
fn wanted<'a>(
    schema: &Schema,
    columns: &[String],
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<Schema> {
    let mut seen = HashSet::new();
    let places = ColumnsByName::new(schema);
    let fields = columns.iter().map(|name| {
        if !seen.insert(name) {
            return Err(
                Error::usage(format!("column `{name}` is asked for twice")).remedy("name it once")
            );
        }
        places.field(name).cloned().ok_or_else(|| unknown("column", name, known.clone()))
    });
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?))
}
