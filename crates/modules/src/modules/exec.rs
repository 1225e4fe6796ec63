//! Runs an external program: writes rows to it, and reads its output (River's copy-out and copy-in:
//! unmodified sequential programs as modules).

use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use arrow::datatypes::SchemaRef;
use euphrates_device::process::{ChildProgram, Killer};
use euphrates_flow::module::{Bound, Configure, Inputs, OutputOrder};
use euphrates_flow::{
    Cancel, Effect, Error, InputOrder, Kind, Module, ModuleSpec, Ports, Result, Setup, Taken, spec,
};
use euphrates_formats::{BatchStream, PipeWriter, ReadOptions, WriteOptions, format_named};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::pipes::{Columns, put_all};

pub(crate) static MODULE: ModuleSpec = ModuleSpec {
    name: "exec",
    summary: "Runs a program: rows go in on its standard input, and come out on its output.",
    detail: "`exec(\"grep -v foo\", input=\"lines\")`. The program is any that reads and writes \
             `csv`, `json_lines`, `arrow_ipc` (as a stream), `records` or `lines`. One copy of it \
             runs; with `count`, as many as that, each with a part of the rows. If it exits with \
             another status than 0, or is killed, the flow fails with the last lines it wrote to \
             its standard error. A program that does not read all its input is well. It is killed \
             when the flow is stopped, with all it has started.",
    example: r#">>> flow = eu.Flow()
>>> cities = eu.from_arrow({"line": ["Ur", "Mari", "Uruk"]})
>>> _ = flow.chain(cities, eu.exec("grep ^U", input="lines"), eu.collect())
>>> flow.go().collected().to_pydict()
{'line': [b'Ur', b'Uruk']}"#,
    order: InputOrder::Keeps,
    effect: Effect::External,
    config_schema: spec::schema_of::<Config>,
    configure: |config| {
        let config: Config = spec::parse_config(config)?;
        config.words()?;
        Ok(Arc::new(Exec { config }))
    },
    ..ModuleSpec::USUAL
};

/// What to run, and how it speaks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// A program and its arguments, or one string for the shell.
    pub(crate) command: CommandLine,
    /// How the rows are written for it: `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`.
    #[serde(default = "csv")]
    pub(crate) input: String,
    /// How what it writes is read; as the input if absent.
    #[serde(default)]
    pub(crate) output: Option<String>,
    /// Names and types of what it writes, like `{"id": "int64"}`; as the input if absent. `records`
    /// and `lines` know theirs.
    #[serde(default)]
    pub(crate) columns: Option<Columns>,
    /// Keep the order in which it writes.
    #[serde(default)]
    pub(crate) order: bool,
    /// CSV: the character between fields, in and out; a comma if absent.
    #[serde(default)]
    pub(crate) delimiter: Option<char>,
    /// CSV: whether the first line names the columns, in and out; it does if absent.
    #[serde(default)]
    pub(crate) header: Option<bool>,
}

/// Whether this is one of the names of CSV.
fn is_csv(format: &str) -> bool {
    format_named(format).is_ok_and(|format| format.about().options.contains(&"delimiter"))
}

fn csv() -> String {
    "csv".into()
}

/// What is executed, at each instance.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum CommandLine {
    /// Text that `sh -c` interprets.
    Shell(String),
    /// A program and its arguments, as they are.
    Words(Vec<String>),
}

impl Config {
    fn words(&self) -> Result<Vec<String>> {
        let empty = || Error::usage("`command` is empty").remedy("name a program");
        match &self.command {
            CommandLine::Shell(line) if line.trim().is_empty() => Err(empty()),
            CommandLine::Shell(line) => Ok(["sh", "-c", line].map(String::from).to_vec()),
            CommandLine::Words(words) if words.is_empty() => Err(empty()),
            CommandLine::Words(words) => Ok(words.clone()),
        }
    }

    fn output(&self) -> &str {
        self.output.as_deref().unwrap_or(&self.input)
    }

    /// The options that the output format accepts.
    fn read_options(&self) -> ReadOptions {
        let is_csv = is_csv(self.output());
        ReadOptions {
            delimiter: self.delimiter.filter(|_| is_csv),
            header: self.header.filter(|_| is_csv),
            ..ReadOptions::default()
        }
    }

    fn write_options(&self) -> WriteOptions {
        let is_csv = is_csv(&self.input);
        WriteOptions {
            delimiter: self.delimiter.filter(|_| is_csv),
            header: self.header.filter(|_| is_csv),
            ..WriteOptions::default()
        }
    }

    /// The output columns: those of the format, else the declared ones, else the input's.
    fn columns(&self, input: &SchemaRef) -> Result<SchemaRef> {
        if matches!(self.output(), "records" | "lines") {
            let known =
                BatchStream::open(self.output(), std::io::empty(), None, &self.read_options());
            return Ok(known?.schema);
        }
        match &self.columns {
            Some(columns) => columns.schema(),
            None => Ok(input.clone()),
        }
    }
}

struct Exec {
    config: Config,
}

impl Configure for Exec {
    fn bind(self: Arc<Self>, inputs: &Inputs) -> Result<Bound> {
        let config = &self.config;
        let input = inputs.schemas[0].clone();
        // Fails here if the formats do not support the schemas.
        PipeWriter::open(&config.input, std::io::sink(), &input, &config.write_options())
            .map_err(|error| error.at("input"))?;
        let output = config.columns(&input).map_err(|error| error.at("output"))?;
        format_named(config.output()).map_err(|e| e.at("output"))?;
        let (order, schemas) = (config.order, (input, output.clone()));
        let instance = move |setup: &Setup| -> Result<Box<dyn Module>> {
            if order && setup.instances > 1 {
                let message = format!("{} programs have no common order", setup.instances);
                return Err(Error::usage(message).remedy("leave out `order`, or `count`"));
            }
            let (exec, (input, output)) = (self.clone(), schemas.clone());
            Ok(Box::new(move |ports: &mut Ports| exec.run(ports, &input, &output)))
        };
        Ok(Bound {
            order: if order { OutputOrder::Runs } else { OutputOrder::None },
            instances_max: Some(1),
            ..Bound::new([output], instance)
        })
    }
}

impl Exec {
    fn run(&self, ports: &mut Ports, input: &SchemaRef, output: &SchemaRef) -> Result<()> {
        let mut feed = ports.take_inputs();
        let cancel = ports.setup().cancel.clone();
        let (program, stdin, stdout) = ChildProgram::start(&self.config.words()?)?;
        let killer = program.killer();
        let (done, dead) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&cancel, &done, &killer));
            let feeder = scope.spawn(|| {
                // The input's queue wakes this thread, and so must a cancelled flow.
                cancel.register_thread();
                let fed = self.feed(&mut feed, stdin, input, &dead);
                // Producers learn at once that the input has no consumer any more.
                drop(feed);
                fed
            });
            let read = self.read(ports, stdout, output);
            if read.is_err() {
                killer.kill();
            }
            let ended = program.finish();
            // The feeding thread may be waiting for input.
            dead.store(true, SeqCst);
            feeder.thread().unpark();
            let fed = feeder.join();
            done.store(true, SeqCst);
            watcher.thread().unpark();
            cancel.check()?;
            let fed = fed.unwrap_or_else(|_| Err(Error::failed("the feeding thread panicked")));
            read.and(ended).and(match fed {
                // The program has closed its input, which is not an error.
                Err(error) if error.kind() == Kind::Closed => Ok(()),
                fed => fed,
            })
        })
    }

    fn feed(
        &self,
        ports: &mut Ports,
        stdin: ChildStdin,
        schema: &SchemaRef,
        dead: &AtomicBool,
    ) -> Result<()> {
        let options = self.config.write_options();
        let mut sink = PipeWriter::open(&self.config.input, stdin, schema, &options)?;
        while ports.select_unless(&[0], &|| dead.load(SeqCst))?.is_some() {
            match ports.get_in_runs(0)? {
                Taken::Batch(parcel) => sink.write(&parcel.batch)?,
                Taken::RunEnd(_) | Taken::Empty => {}
                Taken::End => return sink.finish(),
            }
        }
        Ok(())
    }

    fn read(&self, ports: &mut Ports, stdout: ChildStdout, schema: &SchemaRef) -> Result<()> {
        let options = self.config.read_options();
        let stream =
            BatchStream::open(self.config.output(), stdout, Some(schema.clone()), &options);
        let stream = stream.map_err(|error| error.at("the program's output"))?;
        put_all(ports, stream, self.config.order, false)
    }
}

/// Kills the program when the flow is cancelled.
fn watch(cancel: &Cancel, done: &AtomicBool, killer: &Killer) {
    cancel.register_thread();
    while !done.load(SeqCst) {
        if cancel.is_cancelled() {
            return killer.kill();
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, integers, rows};
    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;
    use serde_json::{Value, json};

    fn run(config: Value, input: &[RecordBatch]) -> Result<Vec<i64>> {
        let harness = Harness::new(&MODULE, config).input(input[0].schema(), input);
        let (outputs, outcome) = harness.run();
        outcome?;
        let all = rows(&outputs[0], input[0].schema());
        Ok(all.column(0).as_primitive::<Int64Type>().values().to_vec())
    }

    #[test]
    fn rows_pass_through_a_program_in_every_format() {
        let input: Vec<_> = (0..50).map(|at| integers(at * 4000..(at + 1) * 4000)).collect();
        let all: Vec<i64> = (0..200_000).collect();
        for format in ["csv", "json_lines", "arrow_ipc"] {
            let config = json!({"command": ["cat"], "input": format, "order": true});
            assert_eq!(run(config, &input).unwrap(), all, "{format}");
        }
    }

    #[test]
    fn a_program_that_reads_all_before_it_writes_does_not_block() {
        let input: Vec<_> = (0..50).map(|at| integers(at * 4000..(at + 1) * 4000)).collect();
        let config = json!({"command": "sort -rn", "header": false});
        let all: Vec<i64> = (0..200_000).rev().collect();
        assert_eq!(run(config, &input).unwrap(), all);
        // A program that writes far more than it reads.
        let config = json!({"command": "yes 7 | head -n 300000; cat > /dev/null", "header": false});
        assert_eq!(run(config, &input).unwrap().len(), 300_000);
    }

    #[test]
    fn program_may_close_its_input_early() {
        let input: Vec<_> = (0..500).map(|at| integers(at * 4000..(at + 1) * 4000)).collect();
        let config = json!({"command": "head -n 3", "header": false});
        assert_eq!(run(config, &input).unwrap(), [0, 1, 2]);
        assert_eq!(run(json!({"command": ["true"]}), &input).unwrap(), [0i64; 0]);
    }

    #[test]
    fn ended_program_does_not_wait_for_input() {
        for (command, fails) in [("exit 3", true), ("true", false)] {
            let harness = Harness::new(&MODULE, json!({"command": command}));
            let harness = harness.input(integers([]).schema(), &[integers(0..10)]).silent();
            let outcome = harness.run().1;
            assert_eq!(outcome.is_err(), fails, "{command}: {outcome:?}");
        }
    }

    #[test]
    fn failing_program_fails_flow_with_its_stderr() {
        let input = [integers(0..10)];
        for (command, expected) in [
            ("cat; echo all wrong >&2; exit 7", "exited with status 7\n    all wrong"),
            ("kill -9 $$", "was killed by signal 9"),
            ("echo other; cat", "other columns"),
            ("exec no-such-program", "not found"),
        ] {
            let error = run(json!({"command": command}), &input).unwrap_err().to_string();
            assert!(error.contains(expected), "{command}: {error}");
        }
        let error = run(json!({"command": ["no-such-program"]}), &input).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
    }

    #[test]
    fn program_output_may_have_other_columns() {
        let input = [integers(0..10)];
        let config = json!({"command": "wc -l", "header": false, "columns": {"lines": "int64"}});
        let harness = Harness::new(&MODULE, config).input(input[0].schema(), &input);
        let (outputs, outcome) = harness.run();
        outcome.unwrap();
        let crate::testing::Item::Batch(batch) = &outputs[0][0] else { panic!() };
        assert_eq!(batch.schema().field(0).name(), "lines");
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 10);
    }

    #[test]
    fn a_stopped_flow_kills_the_program() {
        let harness = Harness::new(&MODULE, json!({"command": "sleep 1000 & sleep 1000"}));
        let harness = harness.input(integers([]).schema(), &[integers(0..10)]);
        let cancel = harness.cancel();
        let flow = thread::spawn(move || harness.run().1.unwrap_err().kind());
        cancel.cancel();
        assert_eq!(flow.join().unwrap(), Kind::Interrupted);
    }
}
