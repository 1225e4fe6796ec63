//! The Arrow types of a file's columns: those to decode to, and those that readers see.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{LogicalType, Type};
use parquet::schema::types::ColumnDescPtr;

/// Keys and a value of the metadata of Arrow fields that hold UUIDs as 16 bytes.
const EXTENSION: &str = "ARROW:extension:name";
const EXTENSION_OPTIONS: &str = "ARROW:extension:metadata";
const UUID_EXTENSION: &str = "arrow.uuid";

/// The columns of a file, twice.
#[derive(Clone, Debug)]
pub struct ColumnTypes {
    /// With the types to which pages are decoded.
    pub decoded: SchemaRef,
    /// The same columns as readers see them: UUIDs are text.
    pub shown: SchemaRef,
}

impl ColumnTypes {
    /// The Arrow schema of a file, with 96-bit timestamps as microseconds: files store these in
    /// nanoseconds, of which 64 bits hold the years 1677 to 2262 alone; and the year 9999 often
    /// stands for never.
    pub fn of(metadata: &ArrowReaderMetadata) -> ColumnTypes {
        let of = |leaf_type| with_leaves(metadata, leaf_type);
        let decoded = of(decoded_type);
        let has_uuids = is_any_uuid(metadata);
        let shown = if has_uuids { of(shown_type) } else { decoded.clone() };
        ColumnTypes { decoded, shown }
    }

    /// Whether readers see the column as it is decoded.
    pub fn is_same(&self, name: &str) -> bool {
        let type_in =
            |schema: &Schema| Some(schema.field_with_name(name).ok()?.data_type().clone());
        type_in(&self.decoded) == type_in(&self.shown)
    }

    /// The schema to decode so that these columns can be shown; `wanted` itself if they are the
    /// same.
    pub fn to_decode(&self, wanted: &SchemaRef) -> SchemaRef {
        if Arc::ptr_eq(&self.decoded, &self.shown) {
            return wanted.clone();
        }
        let decoded = |field: &FieldRef| match self.is_same(field.name()) {
            true => field.clone(),
            false => self.decoded.field_with_name(field.name()).map_or(field.clone(), |own| {
                Arc::new(own.clone().with_nullable(field.is_nullable()))
            }),
        };
        let fields: Vec<FieldRef> = wanted.fields().iter().map(decoded).collect();
        Arc::new(Schema::new_with_metadata(fields, wanted.metadata().clone()))
    }
}

type LeafType = fn(&Field, &ColumnDescPtr) -> Option<DataType>;

fn decoded_type(field: &Field, leaf: &ColumnDescPtr) -> Option<DataType> {
    match (leaf.physical_type(), field.data_type()) {
        (Type::INT96, DataType::Timestamp(_, zone)) => {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}

fn shown_type(field: &Field, leaf: &ColumnDescPtr) -> Option<DataType> {
    match is_uuid(field, leaf) {
        true => Some(DataType::Utf8),
        false => decoded_type(field, leaf),
    }
}

fn is_uuid(field: &Field, leaf: &ColumnDescPtr) -> bool {
    let is_named = field.metadata().get(EXTENSION).is_some_and(|name| name == UUID_EXTENSION);
    *field.data_type() == DataType::FixedSizeBinary(16)
        && (is_named || matches!(leaf.logical_type_ref(), Some(LogicalType::Uuid)))
}

fn is_any_uuid(metadata: &ArrowReaderMetadata) -> bool {
    with_leaves(metadata, shown_type) != with_leaves(metadata, decoded_type)
}

/// The file's schema with other types of leaves.
fn with_leaves(metadata: &ArrowReaderMetadata, leaf_type: LeafType) -> SchemaRef {
    let schema = metadata.schema();
    let mut leaves = metadata.metadata().file_metadata().schema_descr().columns().iter();
    let fields = schema.fields().iter().map(|field| converted(field, &mut leaves, leaf_type));
    let fields: Vec<FieldRef> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Converts a field, and takes its leaves from the front of `leaves`.
fn converted(
    field: &FieldRef,
    leaves: &mut std::slice::Iter<'_, ColumnDescPtr>,
    leaf_type: LeafType,
) -> FieldRef {
    use DataType::*;
    let data_type = match field.data_type() {
        Struct(fields) => {
            Struct(fields.iter().map(|field| converted(field, leaves, leaf_type)).collect())
        }
        List(field) => List(converted(field, leaves, leaf_type)),
        LargeList(field) => LargeList(converted(field, leaves, leaf_type)),
        FixedSizeList(field, size) => FixedSizeList(converted(field, leaves, leaf_type), *size),
        Map(field, sorted) => Map(converted(field, leaves, leaf_type), *sorted),
        leaf => {
            let other = leaves.next().and_then(|leaf| leaf_type(field, leaf));
            other.unwrap_or_else(|| leaf.clone())
        }
    };
    let mut converted = field.as_ref().clone();
    if *field.data_type() == FixedSizeBinary(16) && data_type == Utf8 {
        for key in [EXTENSION, EXTENSION_OPTIONS] {
            converted.metadata_mut().remove(key);
        }
    }
    Arc::new(converted.with_data_type(data_type))
}
