//! A module with user code at a worker: all calls of user code, including those of the check,
//! run in a child process.

use std::sync::Arc;

use euphrates_flow::module::{Interface, OutputOrder};
use euphrates_flow::{Bound, Configure, Inputs, InstanceFactory, Module, Ports, Result, Setup};
use serde_json::Value;

use super::module::IsolatedModule;
use super::port_server::PortServer;

/// Configures a module in a child process.
pub fn configure(module: &'static str, config: Value) -> Result<Arc<dyn Configure>> {
    Ok(Arc::new(IsolatedModule::configure(module, config)?))
}

impl Configure for IsolatedModule {
    fn interface(&self) -> Interface {
        Interface { shape: self.shape.clone(), ..Interface::default() }
    }

    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let (outputs, numbers_runs) = self.check_schemas(inputs.schemas)?;
        let order = OutputOrder::numbered(numbers_runs);
        Ok(Bound { order, ..Bound::shared(outputs, self) })
    }
}

impl InstanceFactory for IsolatedModule {
    fn instance(self: Arc<Self>, _: &Setup) -> Result<Box<dyn Module>> {
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
        let crashes = self.crashes.lock();
        (!crashes.is_empty()).then(|| crashes.join("; "))
    }
}
