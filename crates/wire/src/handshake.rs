//! The handshake: mutual authentication by a shared secret that is never sent.
//!
//! The caller's Hello has a nonce and its greeting; the Welcome has a nonce, a proof and a
//! greeting; a second Hello has the caller's proof. A proof is an HMAC-SHA256 over the role of its
//! sender and everything both ends sent before, so it is valid for one connection, one direction
//! and these greetings. An end that refuses sends the reason in a Bye before it closes; an end of
//! another version finds the version in the Bye's header.

use std::io::{Read, Write};

use euphrates_flow::{Error, Kind as Failure, Result};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::frame::{FrameKind, Header};
use crate::greeting::Greeting;
use crate::link::{Frame, FrameReceiver, FrameSender};
use crate::secret::{Secret, random_bytes};

/// The length of a nonce, which makes every handshake unique.
const NONCE_BYTES: usize = 32;
/// The length of a proof: an HMAC-SHA256.
const PROOF_BYTES: usize = 32;
/// Bytes of an unauthenticated peer's reason that are shown, at most.
const REASON_BYTES_MAX: usize = 500;
/// The remedy for ends with different tokens.
pub(crate) const REMEDY_TOKEN: &str =
    "give both ends the same token: one of them has that of another flow or cluster";

/// The role of the end that sends a proof.
#[derive(Clone, Copy, Debug)]
enum Role {
    Caller,
    Answerer,
}

/// Runs the caller's side. Returns the other end's greeting with the agreed caps and abilities.
/// `vouch` fails if the other end's certificate has another name.
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use euphrates_wire::handshake::{answer, call};
/// use euphrates_wire::{Caps, FrameReceiver, FrameSender, Greeting, Secret};
///
/// let greeting = |name: &str| Greeting {
///     name: name.into(),
///     purpose: "batches".into(),
///     flow: 7,
///     epoch: 1,
///     lane: 0,
///     program: "0.1.0".into(),
///     silence_ms: 0,
///     caps: Caps::KNOWN,
///     abilities: vec![],
/// };
/// let ends = |stream| {
///     (FrameSender::new(stream), FrameReceiver::new(stream, Caps::UNKNOWN))
/// };
/// let (one, other) = UnixStream::pair()?;
/// let secret = Secret::random()?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let (mut sender, mut receiver) = ends(&other);
///         let of_flow = |_flow| Some(secret.clone());
///         answer(&mut sender, &mut receiver, &greeting("w0"), of_flow, |_| Ok(()))
///     });
///     let (mut sender, mut receiver) = ends(&one);
///     let peer = call(&mut sender, &mut receiver, &greeting("w1"), &secret, |_| Ok(()));
///     assert_eq!(peer.map(|peer| peer.name).ok().as_deref(), Some("w0"));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn call<R: Read, W: Write>(
    sender: &mut FrameSender<W>,
    receiver: &mut FrameReceiver<R>,
    me: &Greeting,
    secret: &Secret,
    vouch: impl Fn(&Greeting) -> Result<()>,
) -> Result<Greeting> {
    let hello = [&random_bytes::<NONCE_BYTES>()?[..], &me.encode()?].concat();
    send(sender, FrameKind::Hello, &hello)?;
    let called = (|| {
        let welcome = expect(receiver, FrameKind::Welcome)?;
        let (proof, content) = take::<PROOF_BYTES>(&welcome)?;
        let transcript = Transcript { secret, hello: &hello, welcome: content };
        transcript.check(Role::Answerer, proof)?;
        let (_, greeting) = take::<NONCE_BYTES>(content)?;
        let peer = me.agree(Greeting::decode(greeting)?)?;
        vouch(&peer)?;
        Ok((transcript.proof(Role::Caller), peer))
    })();
    let (proof, peer) = called.map_err(|error| refuse(sender, error))?;
    send(sender, FrameKind::Hello, &proof)?;
    receiver.allow(peer.caps);
    Ok(peer)
}

/// Runs the answerer's side, with the secrets of its flows. Returns the caller's greeting with the
/// agreed caps and abilities.
pub fn answer<R: Read, W: Write>(
    sender: &mut FrameSender<W>,
    receiver: &mut FrameReceiver<R>,
    me: &Greeting,
    secret_of: impl Fn(u64) -> Option<Secret>,
    vouch: impl Fn(&Greeting) -> Result<()>,
) -> Result<Greeting> {
    let answered = (|| {
        let hello = expect(receiver, FrameKind::Hello)?;
        let (_, greeting) = take::<NONCE_BYTES>(&hello)?;
        let caller = Greeting::decode(greeting)?;
        vouch(&caller)?;
        let secret = secret_of(caller.flow).ok_or_else(|| unknown_flow(&me.name, caller.flow))?;
        // The answer repeats flow, attempt, lane and purpose of the caller.
        let Greeting { flow, epoch, lane, ref purpose, .. } = caller;
        let here = Greeting { flow, epoch, lane, purpose: purpose.clone(), ..me.clone() };
        let peer = me.agree(caller)?;
        let content = [&random_bytes::<NONCE_BYTES>()?[..], &here.encode()?].concat();
        let transcript = Transcript { secret: &secret, hello: &hello, welcome: &content };
        let welcome = [&transcript.proof(Role::Answerer)[..], &content].concat();
        send(sender, FrameKind::Welcome, &welcome)?;
        let proof = expect(receiver, FrameKind::Hello)?;
        transcript.check(Role::Caller, &proof)?;
        Ok(peer)
    })();
    let peer = answered.map_err(|error| refuse(sender, error))?;
    receiver.allow(peer.caps);
    Ok(peer)
}

/// The error for a flow whose secret this end does not have.
pub(crate) fn unknown_flow(name: &str, flow: u64) -> Error {
    let what = if flow == 0 { "no cluster".into() } else { format!("no flow {flow:x}") };
    Error::usage(format!("`{name}` knows of {what}"))
        .remedy("look whether the flow has ended, or the address belongs to another cluster")
}

/// The transcript of a handshake, and the secret that proofs are made with.
struct Transcript<'a> {
    secret: &'a Secret,
    hello: &'a [u8],
    welcome: &'a [u8],
}

impl Transcript<'_> {
    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.secret.derive("greeting").bytes())
    }

    /// The text that a proof signs. Every part is preceded by its length, so that different
    /// transcripts have different texts.
    fn text(&self, role: Role) -> Vec<u8> {
        let role: &[u8] = match role {
            Role::Caller => b"caller",
            Role::Answerer => b"answerer",
        };
        let mut text = vec![];
        for part in [role, self.hello, self.welcome] {
            text.extend((part.len() as u64).to_le_bytes());
            text.extend(part);
        }
        text
    }

    fn proof(&self, role: Role) -> Vec<u8> {
        hmac::sign(&self.key(), &self.text(role)).as_ref().to_vec()
    }

    /// Verifies a proof in constant time.
    fn check(&self, role: Role, proof: &[u8]) -> Result<()> {
        hmac::verify(&self.key(), &self.text(role), proof)
            .map_err(|_| Error::usage("the two ends have different tokens").remedy(REMEDY_TOKEN))
    }
}

/// The reason for a refusal, as JSON in a Bye.
#[derive(Serialize, Deserialize)]
struct Reason {
    refused: String,
    remedy: String,
}

/// Sends the other end the reason for a refusal and returns the error for this end. Errors of the
/// network are not sent.
pub(crate) fn refuse<W: Write>(sender: &mut FrameSender<W>, error: Error) -> Error {
    if matches!(error.kind(), Failure::Usage | Failure::Corrupt) {
        let remedy = error.advice().unwrap_or_default().to_string();
        let reason = Reason { refused: error.message().to_string(), remedy };
        if let Ok(reason) = serde_json::to_vec(&reason) {
            // The other end may have hung up.
            let _ = send(sender, FrameKind::Bye, &reason);
        }
    }
    error
}

/// The error for a Bye with this reason. The text is shown to users and may come from an
/// unauthenticated peer, so it is shortened and control characters are removed.
pub(crate) fn refused(reason: &[u8]) -> Error {
    let shown = |text: &str| -> String {
        let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut bytes = 0;
        let fits = |c: &char| {
            bytes += c.len_utf8();
            bytes <= REASON_BYTES_MAX
        };
        plain.take_while(fits).collect()
    };
    match serde_json::from_slice::<Reason>(reason) {
        Ok(Reason { refused, remedy }) => {
            let error = Error::new(Failure::Usage, format!("refused: {}", shown(&refused)));
            if remedy.is_empty() { error } else { error.remedy(shown(&remedy)) }
        }
        Err(_) => Error::new(Failure::Usage, "the other end has refused this connection"),
    }
}

fn send<W: Write>(sender: &mut FrameSender<W>, kind: FrameKind, meta: &[u8]) -> Result<()> {
    sender.send(Header::of(kind), meta, &[]).map_err(crate::link::lost)
}

/// Receives a frame of this kind and returns its meta.
fn expect<R: Read>(receiver: &mut FrameReceiver<R>, kind: FrameKind) -> Result<Vec<u8>> {
    match receiver.receive()? {
        Some(Frame { header, meta, .. }) if header.kind == kind => Ok(meta),
        Some(Frame { header, meta, .. }) if header.kind == FrameKind::Bye => Err(refused(&meta)),
        Some(Frame { header, .. }) => {
            Err(Error::corrupt(format!("a frame of kind {:?} where {kind:?} was due", header.kind)))
        }
        None => Err(Error::resource("the other end hung up before it had said who it is")),
    }
}

fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8])> {
    bytes.split_first_chunk().ok_or_else(|| Error::corrupt("a greeting that is cut short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use crate::frame::Caps;
    use crate::greeting::tests::greeting;

    type Greeted = (Result<Greeting>, Result<Greeting>);

    fn ends(stream: &UnixStream) -> (FrameSender<&UnixStream>, FrameReceiver<&UnixStream>) {
        (FrameSender::new(stream), FrameReceiver::new(stream, Caps::UNKNOWN))
    }

    /// Runs a handshake through a man in the middle, which may change the meta of a frame, given
    /// the role of its sender and its number among that sender's frames.
    fn greet_through(
        secret: &Secret,
        change: impl Fn(Role, usize, &mut Vec<u8>) + Sync,
    ) -> Greeted {
        let (caller, near) = UnixStream::pair().unwrap();
        let (far, called) = UnixStream::pair().unwrap();
        let carry = |role, from: &UnixStream, to: &UnixStream| {
            let (mut sender, mut receiver) =
                (FrameSender::new(to), FrameReceiver::new(from, Caps::KNOWN));
            let mut number = 0;
            while let Ok(Some(Frame { header, mut meta, .. })) = receiver.receive() {
                change(role, number, &mut meta);
                number += 1;
                if sender.send(header, &meta, &[]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Write);
        };
        let ok = |_: &Greeting| Ok(());
        thread::scope(|scope| {
            scope.spawn(|| carry(Role::Caller, &near, &far));
            scope.spawn(|| carry(Role::Answerer, &far, &near));
            let calling = scope.spawn(|| {
                let (mut sender, mut receiver) = ends(&caller);
                let greeted = call(&mut sender, &mut receiver, &greeting("w2"), secret, ok);
                let _ = caller.shutdown(std::net::Shutdown::Write);
                greeted
            });
            let (mut sender, mut receiver) = ends(&called);
            let keys = |flow| (flow == 7).then(|| secret.clone());
            let answered = answer(&mut sender, &mut receiver, &greeting("w1"), keys, ok);
            called.shutdown(std::net::Shutdown::Write).unwrap();
            (calling.join().unwrap(), answered)
        })
    }

    #[test]
    fn both_ends_learn_the_name_of_the_other() {
        let (caller, answerer) = greet_through(&Secret::random().unwrap(), |_, _, _| {});
        assert_eq!(caller.unwrap().name, "w1");
        assert_eq!(answerer.unwrap().name, "w2");
    }

    #[test]
    fn any_changed_byte_fails_the_handshake() {
        let secret = Secret::random().unwrap();
        let lengths = parking_lot::Mutex::new(vec![]);
        let _ = greet_through(&secret, |role, number, meta| {
            lengths.lock().push((role as u8, number, meta.len()));
        });
        for (sender_role, at, length) in lengths.into_inner() {
            // One bit of every byte, with valid checksums.
            for byte in 0..length {
                let (caller, answerer) = greet_through(&secret, |role, number, meta| {
                    if (role as u8, number) == (sender_role, at) {
                        meta[byte] ^= 1 << (byte % 7);
                    }
                });
                assert!(answerer.is_err(), "frame {at} of {sender_role}, byte {byte}");
                // The caller succeeds before it sends its last frame.
                assert!(caller.is_err() || at == 1, "frame {at} of {sender_role}, byte {byte}");
            }
        }
    }

    #[test]
    fn replayed_frames_fail_the_handshake() {
        let secret = Secret::random().unwrap();
        let content = parking_lot::Mutex::new(vec![]);
        let _ = greet_through(&secret, |role, _, meta| {
            if matches!(role, Role::Caller) {
                content.lock().push(meta.clone());
            }
        });
        let mut bytes = vec![];
        let mut sender = FrameSender::new(&mut bytes);
        for meta in content.into_inner() {
            send(&mut sender, FrameKind::Hello, &meta).unwrap();
        }
        let mut receiver = FrameReceiver::new(&bytes[..], Caps::UNKNOWN);
        let keys = |_| Some(secret.clone());
        let mut sender = FrameSender::new(std::io::sink());
        let answered = answer(&mut sender, &mut receiver, &greeting("w1"), keys, |_| Ok(()));
        assert!(answered.unwrap_err().to_string().contains("different tokens"));
    }

    #[test]
    fn reasons_are_shortened_and_stripped_of_control_characters() {
        let reason =
            Reason { refused: format!("\x1b[31m\n{}", "é".repeat(999)), remedy: "".into() };
        let error = refused(&serde_json::to_vec(&reason).unwrap());
        assert!(error.message().len() <= REASON_BYTES_MAX + "refused: ".len());
        assert!(!error.message().contains(char::is_control));
        assert!(refused(b"junk").message().contains("has refused this connection"));
    }
}
