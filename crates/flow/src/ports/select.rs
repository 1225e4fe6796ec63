//! Waits for any of several inputs.

use super::Ports;
use crate::error::Result;
use crate::ports::metrics::InstanceState;

impl Ports {
    /// Waits until one of the inputs is ready and returns it; `None` if there are no inputs. An
    /// input that has ended is always ready: leave it out once `get` has returned `None`.
    pub fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        self.select_unless(inputs, &|| false)
    }

    /// Like `select`, but returns `None` once `is_over` is true. The thread that makes it true must
    /// unpark this thread.
    pub fn select_unless(
        &mut self,
        inputs: &[usize],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<usize>> {
        let Some(first) = inputs.first() else { return Ok(None) };
        self.stretch_work()?;
        if let Some(ready) = self.inputs[*first].select(inputs)? {
            return Ok(Some(ready));
        }
        let ready = self.wait_for_any(inputs, is_over)?;
        self.resume()?;
        Ok(ready)
    }

    fn wait_for_any(
        &mut self,
        inputs: &[usize],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<usize>> {
        let _state = self.metrics.enter_in_ports(InstanceState::Starved);
        loop {
            self.setup.cancel.check()?;
            let ready = inputs.iter().copied().find(|&input| self.inputs[input].ready(true));
            if ready.is_some() || is_over() {
                inputs.iter().for_each(|&other| {
                    self.inputs[other].ready(false);
                });
                return Ok(ready);
            }
            std::thread::park();
        }
    }
}
