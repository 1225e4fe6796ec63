//! Declared columns of a pipe, and putting a pipe's batches on an output, for `copy_in` and `exec`.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use euphrates_flow::{Error, Ports, Result, RunIndex, split_batch};
use euphrates_formats::BatchStream;
use euphrates_formats::options::type_named;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Columns in the order they come: `{"name": "type"}`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Columns(Map<String, Value>);

impl Columns {
    /// The columns as a schema; every column is nullable.
    pub(crate) fn schema(&self) -> Result<SchemaRef> {
        let field = |(name, data_type): (&String, &Value)| match data_type.as_str() {
            Some(data_type) => Ok(Field::new(name, type_named(data_type)?, true)),
            None => Err(Error::usage(format!("the type of column `{name}` is {data_type}"))
                .remedy("give its name, like \"int64\" or \"string\"")),
        };
        let fields = self.0.iter().map(field).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }
}

/// Puts the batches of a stream on output 0, each as a run if `ordered`. Counts the rows as input
/// of the module if `count`.
pub(crate) fn put_all(
    ports: &mut Ports,
    stream: BatchStream,
    ordered: bool,
    count: bool,
) -> Result<()> {
    let mut run: RunIndex = 0;
    for batch in stream.batches {
        for batch in split_batch(batch?) {
            if count {
                ports.metrics().got(batch.num_rows(), euphrates_flow::batch_bytes(&batch));
            }
            if ordered {
                ports.begin_run(0, run)?;
            }
            put(ports, batch)?;
            if ordered {
                ports.end_run(0)?;
                run += 1;
            }
        }
    }
    Ok(())
}

fn put(ports: &mut Ports, batch: RecordBatch) -> Result<()> {
    ports.check()?;
    ports.put(0, batch)
}
