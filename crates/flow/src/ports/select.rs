//! Waiting for any of several inputs.

use super::Ports;
use crate::error::Result;
use crate::metrics::State;

impl Ports {
    /// Waits until one of the inputs has something (or has ended) and names it; `None` if there
    /// are no inputs. An input that has ended is ready for ever: leave it out once `get` said so.
    pub fn select(&mut self, inputs: &[usize]) -> Result<Option<usize>> {
        self.select_unless(inputs, &|| false)
    }

    /// The same; `None`, too, once it is over. Whoever says that it is unparks this thread.
    pub fn select_unless(
        &mut self,
        inputs: &[usize],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<usize>> {
        let Some(first) = inputs.first() else { return Ok(None) };
        self.stand_still()?;
        if let Some(ready) = self.inputs[*first].select(inputs)? {
            return Ok(Some(ready));
        }
        let ready = self.wait_for_any(inputs, is_over)?;
        self.let_go()?;
        Ok(ready)
    }

    fn wait_for_any(
        &mut self,
        inputs: &[usize],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<usize>> {
        let _state = self.metrics.enter_in_ports(State::Starved);
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
