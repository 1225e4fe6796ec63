//! A proxy that injects network faults into single units (frames or TLS records) of a connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use euphrates_wire::Address;
use euphrates_wire::frame::{Caps, HEADER_BYTES, Header};

use super::Carrier;

/// A fault injected into one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Flips one bit, counted from the end of the unit.
    Flip(usize),
    /// Delivers only the first thousandths of the unit and nothing after it.
    Truncate(usize),
    /// Delivers the unit twice.
    Duplicate,
    /// Delivers the unit after the one that follows it.
    Reorder,
    /// Drops the unit and delivers those after it.
    Drop,
    /// Delivers one byte per interval of this many milliseconds.
    Slow(u64),
}

#[derive(Default)]
struct State {
    held: bool,
    fault: Option<Fault>,
}

/// A link from a caller to an answerer; faults apply to what the caller sends.
pub struct Proxy {
    pub address: Address,
    state: Arc<(Mutex<State>, Condvar)>,
    _folder: tempfile::TempDir,
}

trait Stream: Read + Write + Send {
    fn twin(&self) -> Box<dyn Stream>;
    fn shut(&self);
}

impl Stream for TcpStream {
    fn twin(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().unwrap())
    }

    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn twin(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().unwrap())
    }

    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Starts a proxy to an address, for one connection.
pub fn proxy(carrier: Carrier, to: &Address) -> Proxy {
    let folder = tempfile::tempdir().unwrap();
    let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
    let (shared, to) = (state.clone(), to.clone());
    let address = match carrier {
        Carrier::Unix | Carrier::Shared => {
            let path = folder.path().join("proxy");
            let listener = UnixListener::bind(&path).unwrap();
            thread::spawn(move || {
                let Address::Unix(to) = to else { unreachable!() };
                let (stream, _) = listener.accept().unwrap();
                pump(
                    carrier,
                    Box::new(stream),
                    Box::new(UnixStream::connect(to).unwrap()),
                    &shared,
                );
            });
            Address::Unix(path)
        }
        Carrier::Tcp | Carrier::Tls => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let there = TcpStream::connect(to.to_string()).unwrap();
                there.set_nodelay(true).unwrap();
                pump(carrier, Box::new(stream), Box::new(there), &shared);
            });
            Address::Tcp(address)
        }
    };
    Proxy { address, state, _folder: folder }
}

impl Proxy {
    /// Stops or resumes both directions; nothing is lost.
    pub fn hold(&self, held: bool) {
        self.state.0.lock().unwrap().held = held;
        self.state.1.notify_all();
    }

    /// Injects a fault into the next unit.
    pub fn inject(&self, fault: Fault) {
        self.state.0.lock().unwrap().fault = Some(fault);
    }
}

type Shared = (Mutex<State>, Condvar);

fn pump(carrier: Carrier, caller: Box<dyn Stream>, called: Box<dyn Stream>, state: &Arc<Shared>) {
    let (back_from, back_to, back_state) = (called.twin(), caller.twin(), state.clone());
    thread::spawn(move || carry(carrier, back_from, back_to, &back_state, false));
    carry(carrier, caller, called, state, true);
}

fn carry(
    carrier: Carrier,
    mut from: Box<dyn Stream>,
    mut to: Box<dyn Stream>,
    state: &Shared,
    faults: bool,
) {
    let _ = carry_units(carrier, &mut *from, &mut *to, state, faults);
    from.shut();
    to.shut();
}

fn carry_units(
    carrier: Carrier,
    from: &mut dyn Stream,
    to: &mut dyn Stream,
    state: &Shared,
    faults: bool,
) -> io::Result<()> {
    let mut late: Option<Vec<u8>> = None;
    loop {
        let mut bytes = unit(carrier, from)?;
        let mut now = state.1.wait_while(state.0.lock().unwrap(), |state| state.held).unwrap();
        let fault = now.fault.take_if(|_| faults);
        drop(now);
        match fault {
            None => to.write_all(&bytes)?,
            Some(Fault::Flip(bit)) => {
                let at = bytes.len() - 1 - bit / 8 % bytes.len();
                bytes[at] ^= 1 << (bit % 8);
                to.write_all(&bytes)?;
            }
            Some(Fault::Truncate(part)) => {
                return to.write_all(&bytes[..bytes.len() * part / 1000]);
            }
            Some(Fault::Duplicate) => to.write_all(&bytes.repeat(2))?,
            Some(Fault::Reorder) => {
                late = Some(bytes);
                continue;
            }
            Some(Fault::Drop) => {}
            Some(Fault::Slow(wait_ms)) => {
                for byte in bytes {
                    to.write_all(&[byte])?;
                    thread::park_timeout(Duration::from_millis(wait_ms));
                }
            }
        }
        if let Some(late) = late.take() {
            to.write_all(&late)?;
        }
    }
}

/// Reads the next frame or TLS record.
fn unit(carrier: Carrier, from: &mut dyn Stream) -> io::Result<Vec<u8>> {
    const RECORD_HEADER_BYTES: usize = 5;
    let any = Caps { meta_bytes_max: u32::MAX, body_bytes_max: u64::MAX };
    let mut bytes =
        vec![0; if carrier == Carrier::Tls { RECORD_HEADER_BYTES } else { HEADER_BYTES }];
    from.read_exact(&mut bytes)?;
    let more = match carrier {
        Carrier::Tls => usize::from(u16::from_be_bytes([bytes[3], bytes[4]])),
        Carrier::Unix | Carrier::Shared | Carrier::Tcp => {
            let header = Header::decode(bytes[..].try_into().unwrap(), any).unwrap();
            header.meta_bytes as usize + header.body_bytes as usize
        }
    };
    let head = bytes.len();
    bytes.resize(head + more, 0);
    from.read_exact(&mut bytes[head..])?;
    Ok(bytes)
}
