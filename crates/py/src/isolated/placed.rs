//! `Placed` for a module with user code at a worker: all calls of user code, including those of the
//! check, run in a child process.

use std::sync::{Arc, PoisonError};

use arrow::datatypes::SchemaRef;
use euphrates_flow::{Module, Placed, Ports, Result, Setup, Shape};
use serde_json::Value;

use super::module::IsolatedModule;
use super::port_server::PortServer;

/// Places a module in a child process.
pub fn place(module: &'static str, config: Value) -> Result<Arc<dyn Placed>> {
    Ok(Arc::new(IsolatedModule::place(module, config)?))
}

impl Placed for IsolatedModule {
    fn shape(&self) -> Option<Shape> {
        self.shape.clone()
    }

    fn schemas(&self, inputs: &[SchemaRef]) -> Result<Vec<SchemaRef>> {
        self.check_schemas(inputs)
    }

    fn is_ordered(&self, inputs_ordered: bool, keeps_runs: bool) -> bool {
        self.streams || inputs_ordered && keeps_runs
    }

    fn instance(self: Arc<Self>, setup: &Setup) -> Result<Box<dyn Module>> {
        let _ = setup;
        // The process starts Python while the workers connect.
        let mut first = Some(self.acquire_process()?);
        Ok(Box::new(move |ports: &mut Ports| {
            let process = match first.take() {
                Some(process) => process,
                None => self.acquire_process()?,
            };
            PortServer::new(&self, ports).run(process)
        }))
    }

    fn remark(&self) -> Option<String> {
        let crashes = self.crashes.lock().unwrap_or_else(PoisonError::into_inner);
        (!crashes.is_empty()).then(|| crashes.join("; "))
    }
}
