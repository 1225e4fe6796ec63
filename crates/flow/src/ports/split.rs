//! Ports that are divided between threads of one instance.

use super::Ports;

impl Ports {
    /// Splits off the outputs, each as ports of its own, for a module with a thread for each. An
    /// output ends when its ports are dropped; those of a module that fails go back, by
    /// `return_outputs`, so that they end after the flow has been cancelled. The threads must
    /// register with `Cancel` to be woken.
    pub fn take_outputs(&mut self) -> Vec<Ports> {
        self.keeps_runs = false;
        let outputs = std::mem::take(&mut self.outputs).into_iter();
        let names = std::mem::take(&mut self.output_names).into_iter();
        let runs = std::mem::take(&mut self.runs).into_iter();
        let alone = outputs.zip(names).zip(runs).map(|((output, name), run)| Ports {
            inputs: vec![],
            input_names: vec![],
            groups: vec![],
            taps: vec![],
            outputs: vec![output],
            output_names: vec![name],
            runs: vec![run],
            keeps_runs: false,
            partition: None,
            metrics: self.metrics.clone(),
            setup: self.setup.clone(),
            brake: self.brake.clone(),
        });
        alone.collect()
    }

    /// Takes back outputs that were split off.
    pub fn return_outputs(&mut self, outputs: impl IntoIterator<Item = Ports>) {
        for mut ports in outputs {
            self.outputs.append(&mut ports.outputs);
            self.output_names.append(&mut ports.output_names);
            self.runs.append(&mut ports.runs);
        }
    }
}
