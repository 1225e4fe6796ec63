//! TLS over a socket for a reading and a writing thread: the state is locked, the socket is not.
//!
//! Each half has its own ciphertext buffer. The writer encrypts a piece under the lock and sends it
//! without; the reader waits for the socket without the lock and decrypts under it. There is one
//! writer, so records are sent in the order in which they were encrypted.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;

use euphrates_flow::sync::Mutex;
use euphrates_flow::{Error, Result};
use rustls::pki_types::ServerName;
use rustls::server::Acceptor;
use rustls::{AlertDescription, ClientConnection, Connection};

use super::{TlsConfigs, check_name, flow_of_name, name_of_flow};
use crate::handshake::{REMEDY_TOKEN, unknown_flow};

/// Bytes encrypted or decrypted under one lock: enough to amortise a lock and a system call. With
/// more, glibc (which trims beyond 128 KiB) returns the buffers of rustls to the system each time,
/// and faulting them in again cost a third of the throughput.
const PIECE_BYTES: usize = 96 << 10;
/// The first byte of a TLS connection: the content type of a handshake record.
const HANDSHAKE: u8 = 22;

/// The TLS state that both halves share.
pub(crate) struct Tls(Arc<Mutex<Connection>>);

/// Opens TLS as the caller.
pub(crate) fn call(
    reading: &mut impl Read,
    writing: &mut impl Write,
    configs: &TlsConfigs,
    flow: u64,
) -> Result<Tls> {
    let name = ServerName::try_from(name_of_flow(flow)).map_err(super::failed)?;
    let connection = ClientConnection::new(configs.calling.clone(), name).map_err(super::failed)?;
    finish(connection.into(), reading, writing)
}

/// A TLS connection at the answerer, and the flow that the caller named.
pub(crate) struct TlsAnswer {
    pub tls: Tls,
    pub flow: u64,
}

/// Opens TLS as the answerer, with the configuration for the flow that the caller names; fails if
/// there is none.
pub(crate) fn serve(
    reading: &mut impl Read,
    writing: &mut impl Write,
    me: &str,
    configs_for: impl Fn(u64) -> Option<Result<Arc<TlsConfigs>>>,
) -> Result<TlsAnswer> {
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        if acceptor.read_tls(reading).map_err(lost)? == 0 {
            return Err(Error::resource("the caller hung up before it had said who it is"));
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => break accepted,
            Err((error, mut alert)) => {
                // The caller may have hung up.
                let _ = alert.write_all(writing);
                return Err(explained(&error));
            }
        }
    };
    let asked = accepted.client_hello().server_name().and_then(flow_of_name);
    let Some((flow, configs)) = asked.and_then(|flow| Some((flow, configs_for(flow)?))) else {
        refuse_tls(writing, AlertDescription::UnrecognisedName);
        return Err(match asked {
            Some(flow) => unknown_flow(me, flow),
            None => Error::usage("the caller names no flow")
                .remedy("look whether it is Euphrates that calls"),
        });
    };
    match accepted.into_connection(configs?.called.clone()) {
        Ok(connection) => Ok(TlsAnswer { tls: finish(connection.into(), reading, writing)?, flow }),
        Err((error, mut alert)) => {
            let _ = alert.write_all(writing);
            Err(explained(&error))
        }
    }
}

/// Whether the first byte of a connection begins TLS.
pub(crate) fn is_tls(first: u8) -> bool {
    first == HANDSHAKE
}

/// Sends a caller that expects TLS a fatal alert with the reason (RFC 8446, 6).
pub(crate) fn refuse_tls(writing: &mut impl Write, why: AlertDescription) {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    // The caller may have hung up.
    let _ = writing.write_all(&[ALERT, 3, 3, 0, 2, FATAL, why.into()]);
}

fn finish(
    mut connection: Connection,
    reading: &mut impl Read,
    writing: &mut impl Write,
) -> Result<Tls> {
    connection.set_buffer_limit(Some(PIECE_BYTES));
    while connection.is_handshaking() || connection.wants_write() {
        let done = connection.complete_io(&mut Both { reading, writing });
        if let Err(error) = done {
            // An alert with the reason is queued; the other end may have hung up.
            while connection.wants_write() && connection.write_tls(writing).is_ok_and(|n| n > 0) {}
            return Err(lost(error));
        }
    }
    Ok(Tls(Arc::new(Mutex::new(connection))))
}

struct Both<'a, R, W> {
    reading: &'a mut R,
    writing: &'a mut W,
}

impl<R: Read, W> Read for Both<'_, R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reading.read(bytes)
    }
}

impl<R, W: Write> Write for Both<'_, R, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writing.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writing.flush()
    }
}

impl Tls {
    /// The decrypting and the encrypting half.
    pub fn halves(&self) -> (Opening, Sealing) {
        let opening = Opening { tls: self.0.clone(), sealed: vec![], start: 0, end: 0 };
        (opening, Sealing { tls: self.0.clone(), sealed: vec![], sent: 0 })
    }

    /// Fails unless the other end's certificate has this name.
    pub fn check_name(&self, name: &str, flow: u64) -> Result<()> {
        let connection = self.0.lock();
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let none = || Error::usage("the other end has shown no certificate");
        check_name(certificate.ok_or_else(none)?, name, flow)
    }
}

/// The half that decrypts.
#[derive(Debug)]
pub(crate) struct Opening {
    tls: Arc<Mutex<Connection>>,
    sealed: Vec<u8>,
    start: usize,
    end: usize,
}

impl Opening {
    /// Fills `slices` with decrypted bytes; calls `more`, which may wait, only if there are none.
    pub fn read(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
        mut more: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match self.open(slices)? {
                Some(bytes) => return Ok(bytes),
                None => {
                    self.sealed.resize(PIECE_BYTES, 0);
                    (self.start, self.end) = (0, more(&mut self.sealed)?);
                    if self.end == 0 {
                        return Ok(0);
                    }
                }
            }
        }
    }

    /// Decrypts what has been received; `None` if there is nothing, 0 at the end of the stream.
    fn open(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        let mut tls = self.tls.lock();
        let mut opened = 0;
        for slice in slices {
            let mut filled = 0;
            while filled < slice.len() {
                match tls.reader().read(&mut slice[filled..]) {
                    Ok(0) => return Ok(Some(opened)),
                    Ok(bytes) => (filled, opened) = (filled + bytes, opened + bytes),
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    Err(_) if self.start == self.end => return Ok(Some(opened).filter(|n| *n > 0)),
                    Err(_) => {
                        let mut sealed = &self.sealed[self.start..self.end];
                        self.start += tls.read_tls(&mut sealed)?;
                        tls.process_new_packets().map_err(|error| broken(&error))?;
                    }
                }
            }
        }
        Ok(Some(opened))
    }
}

/// The half that encrypts.
#[derive(Debug)]
pub(crate) struct Sealing {
    tls: Arc<Mutex<Connection>>,
    sealed: Vec<u8>,
    sent: usize,
}

impl Sealing {
    /// Encrypts the beginning of `slices` and sends it, after all ciphertext from before. What the
    /// socket does not take now is kept.
    pub fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        mut out: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.flush(&mut out)?;
        let mut tls = self.tls.lock();
        let taken = tls.writer().write_vectored(slices)?;
        self.sealed.clear();
        self.sent = 0;
        while tls.wants_write() {
            tls.write_tls(&mut self.sealed)?;
        }
        drop(tls);
        match self.flush(&mut out) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends the ciphertext that is left.
    pub fn flush(&mut self, mut out: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while self.sent < self.sealed.len() {
            match out(&self.sealed[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn broken(error: &rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, explained(error))
}

/// Converts an error of the handshake, which may be one of the socket or of TLS.
fn lost(error: io::Error) -> Error {
    match error.downcast::<rustls::Error>() {
        Ok(error) => explained(&error),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Error::resource("the other end hung up before it had said who it is")
        }
        Err(error) => crate::link::lost(error),
    }
}

/// Translates an error of TLS into its cause and remedy.
fn explained(error: &rustls::Error) -> Error {
    use AlertDescription::*;
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            Error::usage("the other end's certificate is of another secret").remedy(REMEDY_TOKEN)
        }
        rustls::Error::AlertReceived(UnrecognisedName) => Error::usage(
            "the other end knows of no such flow",
        )
        .remedy("look whether the flow has ended, or the address belongs to another cluster"),
        rustls::Error::AlertReceived(ProtocolVersion) => {
            Error::usage("the other end does not use TLS").remedy(REMEDY_SECURITY)
        }
        rustls::Error::AlertReceived(
            UnknownCA | DecryptError | BadCertificate | CertificateUnknown | CertificateRequired
            | AccessDenied,
        ) => Error::usage("the other end finds that this end's certificate is of another secret")
            .remedy(REMEDY_TOKEN),
        rustls::Error::DecryptError | rustls::Error::PeerMisbehaved(_) => {
            Error::corrupt(format!("what came was changed on its way: {error}"))
        }
        error => Error::corrupt(format!("TLS failed: {error}")),
    }
}

/// The remedy for ends of which only one uses TLS.
pub(crate) const REMEDY_SECURITY: &str = "set `channel_security` to the same at both ends";
