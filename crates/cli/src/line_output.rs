//! Merges the output of several programs line by line, each line with the name of its program.

use std::io::{BufWriter, ErrorKind, IsTerminal, Write};

use euphrates_engine::cluster::launch::{OutputStream, ProgramSlot};
use euphrates_flow::{Error, Result};
use serde_json::json;

use crate::options::Log;

/// The longest line that is buffered; a longer one is written in pieces.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The size of an output buffer.
const OUT_BYTES: usize = 64 << 10;
/// Colours of the workers' names, used in turn.
const COLOURS: [&str; 6] = ["\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[31m"];

/// Names of the streams in JSON.
const STREAMS: [&str; 2] = ["stdout", "stderr"];

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// The program's name and the line.
    Named,
    /// The line without a name.
    Plain,
    /// A JSON object of worker, name, stream and line.
    Json,
}

impl LineFormat {
    /// The format for `--log` and `--plain`.
    pub fn of(log: Log, is_plain: bool) -> LineFormat {
        match (is_plain, log) {
            (true, _) => LineFormat::Plain,
            (false, Log::Json) => LineFormat::Json,
            (false, _) => LineFormat::Named,
        }
    }
}

/// Buffers partial lines of each program, and writes whole ones.
pub struct LineOutput {
    format: LineFormat,
    slots: Vec<ProgramSlot>,
    /// The name before each line, by stream (standard output, standard error) and rank.
    names: [Vec<String>; 2],
    /// Partial lines, by stream and rank.
    parts: [Vec<Vec<u8>>; 2],
    outs: [LineWriter; 2],
}

struct LineWriter {
    out: BufWriter<Box<dyn Write>>,
    is_flushed: bool,
    is_closed: bool,
}

impl LineOutput {
    /// An output to this process's standard output and standard error.
    pub fn new(slots: &[ProgramSlot], format: LineFormat) -> LineOutput {
        let colour = std::env::var_os("NO_COLOR").is_none();
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let coloured = [stdout.is_terminal() && colour, stderr.is_terminal() && colour];
        LineOutput::to(slots, format, coloured, [Box::new(stdout), Box::new(stderr)])
    }

    fn to(
        slots: &[ProgramSlot],
        format: LineFormat,
        coloured: [bool; 2],
        [stdout, stderr]: [Box<dyn Write>; 2],
    ) -> LineOutput {
        LineOutput {
            format,
            slots: slots.to_vec(),
            names: coloured.map(|coloured| names(slots, coloured)),
            parts: [vec![vec![]; slots.len()], vec![vec![]; slots.len()]],
            outs: [LineWriter::new(stdout), LineWriter::new(stderr)],
        }
    }

    /// Takes bytes that a program has written.
    pub fn add(&mut self, rank: usize, stream: OutputStream, bytes: &[u8]) -> Result<()> {
        let at = usize::from(stream == OutputStream::Stderr);
        let mut rest = bytes;
        let ends_line = |byte: &u8| *byte == b'\n';
        loop {
            // Without names, consecutive whole lines are written at once.
            let end = match self.format {
                LineFormat::Plain => rest.iter().rposition(ends_line),
                _ => rest.iter().position(ends_line),
            };
            let Some(end) = end else { break };
            let part = std::mem::take(&mut self.parts[at][rank]);
            self.write(rank, at, [&part, &rest[..end]], true)?;
            rest = &rest[end + 1..];
        }
        self.parts[at][rank].extend_from_slice(rest);
        if self.parts[at][rank].len() > LINE_BYTES_MAX {
            let part = std::mem::take(&mut self.parts[at][rank]);
            self.write(rank, at, [&part, b""], false)?;
        }
        Ok(())
    }

    /// Writes the partial lines of a program that has ended.
    pub fn end(&mut self, rank: usize) -> Result<()> {
        for at in 0..2 {
            let part = std::mem::take(&mut self.parts[at][rank]);
            if !part.is_empty() {
                self.write(rank, at, [&part, b""], false)?;
            }
        }
        Ok(())
    }

    /// Writes a line. A partial one (not `is_whole`) gets a newline, except in plain format.
    fn write(&mut self, rank: usize, at: usize, line: [&[u8]; 2], is_whole: bool) -> Result<()> {
        // Both streams may be one file, so the other one is flushed first to keep the order.
        self.outs[1 - at].flush()?;
        let out = &mut self.outs[at];
        match self.format {
            LineFormat::Named => {
                out.write(&[self.names[at][rank].as_bytes(), line[0], line[1], b"\n"])
            }
            LineFormat::Plain => out.write(&[line[0], line[1], if is_whole { b"\n" } else { b"" }]),
            LineFormat::Json => {
                let ProgramSlot { worker, name } = &self.slots[rank];
                let line = line.concat();
                let text = String::from_utf8_lossy(&line);
                let object = json!({
                    "worker": worker, "name": name, "stream": STREAMS[at], "line": text,
                });
                self.outs[0].write(&[object.to_string().as_bytes(), b"\n"])
            }
        }
    }

    /// Flushes standard output and standard error.
    pub fn flush(&mut self) -> Result<()> {
        self.outs.iter_mut().try_for_each(LineWriter::flush)
    }

    /// Whether all whole lines have been flushed.
    pub fn is_flushed(&self) -> bool {
        self.outs.iter().all(|out| out.is_flushed)
    }

    /// Whether the reader of standard output has gone.
    pub fn is_closed(&self) -> bool {
        self.outs[0].is_closed
    }
}

fn names(slots: &[ProgramSlot], coloured: bool) -> Vec<String> {
    let width = slots.iter().map(|slot| slot.name.len()).max().unwrap_or(0);
    let mut workers: Vec<&str> = vec![];
    let mut all = vec![];
    for slot in slots {
        if workers.last() != Some(&slot.worker.as_str()) {
            workers.push(&slot.worker);
        }
        let colour = COLOURS[(workers.len() - 1) % COLOURS.len()];
        let (on, off) = if coloured { (colour, "\x1b[0m") } else { ("", "") };
        all.push(format!("{on}{:width$} |{off} ", slot.name));
    }
    all
}

impl LineWriter {
    fn new(out: Box<dyn Write>) -> LineWriter {
        let out = BufWriter::with_capacity(OUT_BYTES, out);
        LineWriter { out, is_flushed: true, is_closed: false }
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.is_flushed = false;
        let written = parts.iter().try_for_each(|part| self.out.write_all(part));
        self.check(written)
    }

    fn flush(&mut self) -> Result<()> {
        if self.is_flushed {
            return Ok(());
        }
        self.is_flushed = true;
        let written = self.out.flush();
        self.check(written)
    }

    /// Records a closed pipe, which is no error.
    fn check(&mut self, written: std::io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            written => written.map_err(|error| Error::os("write", "lines", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sheet(Arc<Mutex<Vec<u8>>>);

    impl Write for Sheet {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The text on standard output after the programs have written these bytes.
    fn shown(format: LineFormat, coloured: bool, written: &[(usize, &[u8])]) -> String {
        let slot = |worker: &str| ProgramSlot { worker: worker.into(), name: worker.into() };
        let sheet = Sheet::default();
        let outs: [Box<dyn Write>; 2] = [Box::new(sheet.clone()), Box::new(Sheet::default())];
        let mut lines = LineOutput::to(&[slot("w1"), slot("w10")], format, [coloured; 2], outs);
        for (rank, bytes) in written {
            lines.add(*rank, OutputStream::Stdout, bytes).unwrap();
        }
        (0..2).for_each(|rank| lines.end(rank).unwrap());
        lines.flush().unwrap();
        assert!(lines.is_flushed());
        let bytes = sheet.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn partial_writes_become_whole_lines() {
        let written: &[(usize, &[u8])] =
            &[(0, b"one"), (1, b"1\n2"), (0, b" line\n\nx"), (1, b"3\n"), (0, b"y")];
        let named = "w10 | 1\nw1  | one line\nw1  | \nw10 | 23\nw1  | xy\n";
        assert_eq!(shown(LineFormat::Named, false, written), named);
        assert_eq!(shown(LineFormat::Plain, false, written), "1\none line\n\n23\nxy");
        let json = shown(LineFormat::Json, false, &[(1, b"a\"b\xff\n")]);
        let wanted =
            json!({"worker": "w10", "name": "w10", "stream": "stdout", "line": "a\"b\u{fffd}"});
        assert_eq!(json, format!("{wanted}\n"));
        let coloured = shown(LineFormat::Named, true, &[(0, b"a\n"), (1, b"b\n")]);
        assert_eq!(coloured, "\x1b[36mw1  |\x1b[0m a\n\x1b[33mw10 |\x1b[0m b\n");
    }

    #[test]
    fn endless_lines_are_written_in_pieces() {
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(shown(LineFormat::Plain, false, &[(0, &long), (0, b"y")]).len(), long.len() + 1);
        let named = shown(LineFormat::Named, false, &[(0, &long), (1, b"y\n"), (0, b"z\n")]);
        let lines: Vec<&str> = named.lines().collect();
        assert_eq!((lines[0].len(), &lines[1..]), (long.len() + 6, &["w10 | y", "w1  | z"][..]));
    }
}
