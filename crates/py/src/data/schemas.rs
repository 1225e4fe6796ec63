//! The methods of `Schema`, schemas in configurations, and the check of returned batches against a
//! promised schema.

use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Result, new_batch};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use serde_json::{Map, Value};

use super::capsules::export_schema;
use super::classes::Schema;
use super::import::import_schema;
use crate::errors::OrRaise;
use crate::interpreter::type_name;

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The types of the columns, as `schema` takes them.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| type_words(field)).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }

    fn __len__(&self) -> usize {
        self.schema.fields().len()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(import_schema(other)?.is_some_and(|other| other == self.schema))
    }

    /// The call of `schema` that makes it.
    fn __repr__(&self) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let column =
            |field: &FieldRef| format!("{}: {}", text(field.name()), text(&type_words(field)));
        let columns: Vec<String> = self.schema.fields().iter().map(column).collect();
        format!("schema({{{}}})", columns.join(", "))
    }

    /// The schema as pyarrow has it.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("schema", (slf,))
    }
}

/// A schema of types by name.
#[pyfunction]
pub fn schema(py: Python<'_>, columns: Bound<'_, PyDict>) -> PyResult<Schema> {
    let mut words = Map::new();
    for (name, kind) in columns {
        words.insert(name.extract()?, kind.str()?.extract::<String>()?.into());
    }
    Ok(Schema { schema: parse(&words).or_raise(py)? })
}

/// A schema as a configuration holds it: `{"name": "type"}`, from anything that has a schema.
#[pyfunction]
pub fn schema_words<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = object.py();
    let schema = import_schema(object)?.ok_or_else(|| {
        Error::usage(format!("{} is not an Arrow schema", type_name(object))).remedy(
            "give a pyarrow schema, or a dict like {\"id\": \"int64\", \"name\": \"string\"}",
        )
    });
    let schema = schema.or_raise(py)?;
    let words = PyDict::new(py);
    for field in schema.fields() {
        if words.contains(field.name())? {
            let error = Error::usage(format!("two columns are named `{}`", field.name()));
            return Err(error).or_raise(py);
        }
        words.set_item(field.name(), type_words(field))?;
    }
    Ok(words)
}

/// The type of a column in a configuration, like `Int64` or `Utf8 not null`.
fn type_words(field: &Field) -> String {
    let null = if field.is_nullable() { "" } else { " not null" };
    format!("{}{null}", without_metadata(field.data_type()))
}

/// The type without the metadata of nested fields, which the parser of types does not read.
fn without_metadata(kind: &DataType) -> DataType {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, Struct};
    let bare = |field: &FieldRef| -> FieldRef {
        let kind = without_metadata(field.data_type());
        Arc::new(Field::new(field.name(), kind, field.is_nullable()))
    };
    match kind {
        List(item) => List(bare(item)),
        LargeList(item) => LargeList(bare(item)),
        FixedSizeList(item, size) => FixedSizeList(bare(item), *size),
        Struct(fields) => Struct(fields.iter().map(bare).collect()),
        Map(entries, is_sorted) => Map(bare(entries), *is_sorted),
        Dictionary(codes, values) => Dictionary(codes.clone(), Box::new(without_metadata(values))),
        other => other.clone(),
    }
}

/// Parses a schema in a configuration: `{"name": "type"}`.
pub fn parse(words: &Map<String, Value>) -> Result<SchemaRef> {
    let field = |(name, words): (&String, &Value)| -> Result<Field> {
        let words = words.as_str().unwrap_or_default();
        let (kind, nullable) = match words.strip_suffix(" not null") {
            Some(kind) => (kind, false),
            None => (words, true),
        };
        Ok(Field::new(
            name,
            parse_type(kind).map_err(|e| e.at(format!("column `{name}`")))?,
            nullable,
        ))
    };
    Ok(Arc::new(ArrowSchema::new(words.iter().map(field).collect::<Result<Vec<_>>>()?)))
}

fn parse_type(words: &str) -> Result<DataType> {
    use arrow::datatypes::TimeUnit;
    let common = match words.trim().to_ascii_lowercase().as_str() {
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" | "int" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float" | "float32" => DataType::Float32,
        "double" | "float64" => DataType::Float64,
        "string" | "str" | "utf8" => DataType::Utf8,
        "large_string" | "largeutf8" => DataType::LargeUtf8,
        "binary" | "bytes" => DataType::Binary,
        "large_binary" | "largebinary" => DataType::LargeBinary,
        "date" | "date32" => DataType::Date32,
        "date64" => DataType::Date64,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "null" => DataType::Null,
        _ => {
            return words.parse().map_err(|_| {
                Error::usage(format!("no type is called `{words}`"))
                    .remedy("types: bool, int64, float64, string, binary, date, timestamp, …")
            });
        }
    };
    Ok(common)
}

/// A schema as one line of text: `id: Int64, name: Utf8`.
pub fn words(schema: &ArrowSchema) -> String {
    let field = |field: &Arc<Field>| format!("{}: {}", field.name(), type_words(field));
    schema.fields().iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Casts a batch to the promised schema. Text may have another of Arrow's text types, and nulls may
/// have the null type; any other difference is an error.
pub fn conform(batch: RecordBatch, promised: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == promised {
        return Ok(batch);
    }
    let actual = batch.schema();
    let pairs = || actual.fields().iter().zip(promised.fields());
    let are_compatible = actual.fields().len() == promised.fields().len()
        && pairs()
            .all(|(a, b)| a.name() == b.name() && is_compatible(a.data_type(), b.data_type()));
    if !are_compatible {
        return Err(Error::failed(format!(
            "returned the columns {}; promised were {}",
            words(&actual),
            words(promised)
        ))
        .remedy("return what the empty batch was answered with, or say what comes: schema=…"));
    }
    let columns = batch.columns().iter().zip(promised.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(column.clone()),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    new_batch(promised.clone(), columns, batch.num_rows()).map_err(|error| {
        Error::failed(error).remedy("allow nulls in the schema, or do not return them")
    })
}

/// Whether a column of one type can be cast to the promised one.
fn is_compatible(actual: &DataType, promised: &DataType) -> bool {
    let text =
        |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    actual.equals_datatype(promised) || text(actual) && text(promised) || *actual == DataType::Null
}
