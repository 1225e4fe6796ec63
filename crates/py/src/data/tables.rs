//! The methods of `Batch` and `Table`. Both export their rows without copying, to every library
//! that supports the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow::array::RecordBatchIterator;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use euphrates_flow::error::unknown_column;
use euphrates_flow::{Error, batch_bytes, new_batch};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::capsules::{export_batch, export_schema, export_stream};
use super::classes::{Batch, Schema, Table};
use super::from_python::array_of;
use super::schemas::{conform, words};
use super::to_python::append_values;
use crate::errors::{OrRaise, to_exception};

/// The methods that both classes have.
macro_rules! table_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            /// The number of rows.
            #[getter]
            fn num_rows(&self) -> usize {
                self.parts().iter().map(RecordBatch::num_rows).sum()
            }

            /// The number of columns.
            #[getter]
            fn num_columns(&self) -> usize {
                self.schema_ref().fields().len()
            }

            /// The bytes of the rows.
            #[getter]
            fn nbytes(&self) -> usize {
                self.parts().iter().map(batch_bytes).sum()
            }

            /// Names and types of the columns.
            #[getter]
            fn schema(&self) -> Schema {
                Schema { schema: self.schema_ref() }
            }

            /// The names of the columns.
            #[getter]
            fn column_names(&self) -> Vec<String> {
                self.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
            }

            fn __len__(&self) -> usize {
                self.num_rows()
            }

            fn __bool__(&self) -> bool {
                true
            }

            fn __repr__(&self) -> String {
                let (class, rows) = (stringify!($class), self.num_rows());
                format!("{class}({rows} rows: {})", words(&self.schema_ref()))
            }

            fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
                export_schema(py, &self.schema_ref())
            }

            #[pyo3(signature = (requested_schema=None))]
            fn __arrow_c_stream__<'py>(
                &self,
                py: Python<'py>,
                requested_schema: Option<Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyCapsule>> {
                // The interface lets a producer ignore the request; the consumer then casts.
                let _ = requested_schema;
                let batches: Vec<Result<_, ArrowError>> =
                    self.parts().iter().cloned().map(Ok).collect();
                let reader = RecordBatchIterator::new(batches, self.schema_ref());
                export_stream(py, Box::new(reader))
            }

            /// The rows as a Polars data frame.
            // Decimals of 32 and 64 bits get 128, since Polars misreads the former.
            fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                let py = slf.py();
                let rows = slf.get();
                without_intervals(&rows.schema_ref()).or_raise(py)?;
                let rows = wide_decimals(rows.parts(), &rows.schema_ref()).or_raise(py)?;
                library(py, "polars")?.call_method1("DataFrame", (rows,))
            }

            /// The rows as a pandas data frame, with exact integers beside nulls. Needs pyarrow.
            fn to_pandas<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                let rows = slf.py().import("euphrates._user_code.rows")?;
                rows.call_method1("frame_of", (slf,))
            }

            /// The rows as a DuckDB relation, of a connection or of the default one.
            #[pyo3(signature = (connection=None))]
            fn to_duckdb<'py>(
                slf: Bound<'py, Self>,
                connection: Option<Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let py = slf.py();
                let host = match connection {
                    Some(connection) => connection,
                    None => library(py, "duckdb")?.into_any(),
                };
                host.call_method1("from_arrow", (slf,))
            }

            /// The rows as Python values, a list for each column.
            fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let columns = PyDict::new(py);
                for (position, field) in self.schema_ref().fields().iter().enumerate() {
                    let values = pyo3::types::PyList::empty(py);
                    for batch in self.parts() {
                        append_values(py, batch.column(position), &values)?;
                    }
                    columns.set_item(field.name(), values)?;
                }
                Ok(columns)
            }

            /// The rows as Python values, a dict for each row.
            fn to_pylist<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                let rows = slf.py().import("euphrates._user_code.rows")?;
                rows.call_method1("rows", (slf.get().to_pydict(slf.py())?, slf.get().num_rows()))
            }

            $($own)*
        }
    };
}

table_methods!(Batch {
    /// Some of the rows, without copying them.
    #[pyo3(signature = (offset=0, length=None))]
    fn slice(&self, offset: usize, length: Option<usize>) -> Batch {
        let offset = offset.min(self.batch.num_rows());
        let left = self.batch.num_rows() - offset;
        Batch { batch: self.batch.slice(offset, length.unwrap_or(left).min(left)) }
    }

    /// Some of the columns, by name, in this order.
    fn select(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Batch> {
        let schema = self.batch.schema();
        let position = |name: &String| {
            schema.index_of(name).map_err(|_| unknown_column(name, &schema))
        };
        let positions: Result<Vec<usize>, Error> = columns.iter().map(position).collect();
        let batch = self.batch.project(&positions.or_raise(py)?).map_err(Error::from);
        Ok(Batch { batch: batch.or_raise(py)? })
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        export_batch(py, &self.batch)
    }

    /// The rows as a pyarrow record batch.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("record_batch", (slf,))
    }
});

table_methods!(Table {
    /// The batches the rows came in.
    #[getter]
    fn batches(&self) -> Vec<Batch> {
        self.batches.iter().map(|batch| Batch { batch: batch.clone() }).collect()
    }

    /// The rows as a pyarrow table.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("euphrates.report")?.call_method1("table_html", (slf,))
    }
});

/// An error if a column has intervals, also within lists and structs: Polars has no such type, and
/// panics.
fn without_intervals(schema: &SchemaRef) -> Result<(), Error> {
    let found = schema.fields().iter().find(|field| has_intervals(field.data_type()));
    found.map_or(Ok(()), |field| {
        let error = Error::usage("Polars has no type for intervals");
        let error = error.at(format!("column `{}`", field.name()));
        Err(error.remedy("cast it to text, or take it with `to_pyarrow()`"))
    })
}

fn has_intervals(of: &DataType) -> bool {
    match of {
        DataType::Interval(_) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_intervals(item.data_type())
        }
        DataType::Map(entries, _) => has_intervals(entries.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        _ => false,
    }
}

/// The rows, with columns of narrow decimals as decimals of 128 bits.
fn wide_decimals(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Table, Error> {
    let wide = |field: &FieldRef| match field.data_type() {
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            let wide = DataType::Decimal128(*digits, *scale);
            Arc::new(field.as_ref().clone().with_data_type(wide))
        }
        _ => field.clone(),
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(wide).collect();
    let schema = Arc::new(ArrowSchema::new_with_metadata(fields, schema.metadata().clone()));
    let batches = batches.iter().map(|batch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        new_batch(schema.clone(), columns.collect::<Result<_, _>>()?, batch.num_rows())
            .map_err(Error::from)
    });
    Ok(Table { batches: batches.collect::<Result<_, Error>>()?, schema: schema.clone() })
}

/// A table of Python values: a list for each column.
#[pyfunction]
pub fn table_of(columns: &Bound<'_, PyDict>) -> PyResult<Table> {
    let py = columns.py();
    let mut arrays = Vec::new();
    for (name, values) in columns {
        let name: String = name.extract()?;
        let place = |error: Error| error.at(format!("column `{name}`"));
        arrays.push((name.clone(), array_of(&values)?.map_err(place).or_raise(py)?));
    }
    let batch = RecordBatch::try_from_iter_with_nullable(
        arrays.into_iter().map(|(name, array)| (name, array, true)),
    );
    let batch = batch.map_err(|error| Error::usage(error.to_string())).or_raise(py)?;
    Ok(Table { schema: batch.schema(), batches: vec![batch] })
}

/// A table of batches, which must have the schema.
#[pyfunction]
pub fn table(batches: Vec<Bound<'_, Batch>>, schema: &Bound<'_, Schema>) -> PyResult<Table> {
    let (py, schema) = (schema.py(), schema.get().schema.clone());
    let batches = batches.iter().map(|batch| conform(batch.get().batch.clone(), &schema));
    Ok(Table { batches: batches.collect::<Result<_, Error>>().or_raise(py)?, schema })
}

impl Batch {
    fn parts(&self) -> &[RecordBatch] {
        std::slice::from_ref(&self.batch)
    }

    fn schema_ref(&self) -> SchemaRef {
        self.batch.schema()
    }
}

impl Table {
    fn parts(&self) -> &[RecordBatch] {
        &self.batches
    }

    fn schema_ref(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// An optional library; a usage error with a remedy if it is not installed.
fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|cause| {
        let error =
            Error::usage(format!("{name} is not installed")).remedy(format!("pip install {name}"));
        to_exception(py, &error, Some(cause))
    })
}
