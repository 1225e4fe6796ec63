//! The shares of all writers of a session, combined to what the commit writes.
//!
//! A share has bytes of its writer and, of the stripes that the writer owns, bytes of others. What
//! a dead incarnation has sent is left out. If a writer has written a byte again, its filled
//! stripes precede, then its log; what it has sent to owners is the oldest.

use std::collections::BTreeMap;
use std::ops::Range;

use euphrates_flow::{Error, Result};

use super::assembly::ITSELF;
use super::attribution::Attribution;
use super::frames::Incarnation;
use super::share::{IN_STRIPE, SharePiece, WriterShare};

/// Writers that an error names, at most.
const NAMED_MAX: usize = 8;

/// What the commit does with the shares.
#[derive(Debug, Default)]
pub(super) struct CombinedShares {
    /// By stripe, the writer whose share has it, of those that are adopted.
    pub adopted: BTreeMap<usize, usize>,
    /// By stripe, ranges of adopted stripes that have bytes of dead incarnations.
    pub cleared: BTreeMap<usize, Vec<Range<u64>>>,
    /// By stripe, the writers in whose logs pieces lie, in the order in which they are written.
    pub pieces: BTreeMap<usize, Vec<(usize, Vec<SharePiece>)>>,
}

/// Combines the shares, which are in the order of their writers.
pub(super) fn combine(shares: &[WriterShare], stripe_bytes: u64) -> Result<CombinedShares> {
    expect_handed(shares)?;
    expect_no_conflicts(shares)?;
    let mut combined = CombinedShares::default();
    let mut written: BTreeMap<usize, Attribution> = BTreeMap::new();
    let mut assign = |stripe: usize, range: Range<u64>, writer: usize| -> Result<()> {
        let others = written.entry(stripe).or_default().assign(range, writer as u32);
        others
            .first()
            .map_or(Ok(()), |&(other, byte)| Err(overlap_error(other as usize, writer, byte)))
    };
    // Stripes of one writer, and the ranges of those of several.
    let mut parts: BTreeMap<(usize, usize), Vec<&SharePiece>> = BTreeMap::new();
    for (number, share) in shares.iter().enumerate() {
        for piece in share.pieces.iter().filter(|piece| piece.at == IN_STRIPE) {
            let stripe = (piece.offset / stripe_bytes) as usize;
            parts.entry((number, stripe)).or_default().push(piece);
        }
    }
    for (number, share) in shares.iter().enumerate() {
        for stripe in filled(share).filter(|stripe| !parts.contains_key(&(number, *stripe))) {
            let start = stripe as u64 * stripe_bytes;
            assign(stripe, start..start + stripe_bytes, number)?;
            combined.adopted.insert(stripe, number);
        }
    }
    let alone = combined.adopted.clone();
    for ((number, stripe), pieces) in parts {
        if !alone.contains_key(&stripe) && combined.adopted.insert(stripe, number).is_some() {
            return Err(Error::corrupt("two shares have stripes of one owner"));
        }
        for piece in pieces {
            let range = piece.offset..piece.offset + piece.bytes;
            match live(shares, number, piece.sender) {
                Some(writer) => assign(stripe, range, writer)?,
                None => combined.cleared.entry(stripe).or_default().push(range),
            }
        }
    }
    combined.cleared.retain(|stripe, _| !alone.contains_key(stripe));
    // What owners have of others precedes what these have in logs of their own.
    for is_own in [false, true] {
        for (number, share) in shares.iter().enumerate() {
            for piece in share.pieces.iter().filter(|piece| piece.at != IN_STRIPE) {
                let Some(writer) = live(shares, number, piece.sender) else { continue };
                let stripe = (piece.offset / stripe_bytes) as usize;
                if (piece.sender == ITSELF) != is_own {
                    continue;
                }
                assign(stripe, piece.offset..piece.offset + piece.bytes, writer)?;
                if alone.get(&stripe) == Some(&writer) {
                    continue;
                }
                let of_stripe = combined.pieces.entry(stripe).or_default();
                match of_stripe.last_mut().filter(|(log, _)| *log == number) {
                    Some((_, all)) => all.push(*piece),
                    None => of_stripe.push((number, vec![*piece])),
                }
            }
        }
    }
    Ok(combined)
}

/// The stripes that have blocks in a share.
fn filled(share: &WriterShare) -> impl Iterator<Item = usize> {
    let stripes = share.stripes.map.stripes.iter().enumerate();
    stripes.filter(|(_, entry)| !entry.blocks.is_empty()).map(|(stripe, _)| stripe)
}

/// The writer that a source of a share is, unless that was another incarnation of it.
fn live(shares: &[WriterShare], share: usize, sender: u32) -> Option<usize> {
    let incarnation = shares[share].parts.sources[sender as usize].incarnation;
    (incarnation_of(shares, incarnation.writer) == Some(incarnation)).then_some(incarnation.writer)
}

fn incarnation_of(shares: &[WriterShare], writer: usize) -> Option<Incarnation> {
    shares.get(writer).map(|share| share.parts.sources[ITSELF as usize].incarnation)
}

/// Fails if a writer has handed pieces to an owner that has not ended: they are lost with it.
fn expect_handed(shares: &[WriterShare]) -> Result<()> {
    let mut lost: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, share) in shares.iter().enumerate() {
        let itself = share.parts.sources[ITSELF as usize].incarnation;
        if itself.writer != number {
            return Err(Error::corrupt("a share is that of another writer"));
        }
        for (owner, frames) in &share.parts.handed {
            let took = shares.get(owner.writer).is_some_and(|of_owner| {
                let mut sources = of_owner.parts.sources.iter();
                incarnation_of(shares, owner.writer) == Some(*owner)
                    && sources
                        .any(|source| source.incarnation == itself && source.frames >= *frames)
            });
            if !took {
                lost.entry(owner.writer).or_default().push(number);
            }
        }
    }
    lost.into_iter().next().map_or(Ok(()), |(owner, senders)| Err(lost_error(owner, &senders)))
}

/// Fails if an owner has seen two writers of a byte. A dead one does not count, unless it was the
/// later: the bytes of the earlier are lost.
fn expect_no_conflicts(shares: &[WriterShare]) -> Result<()> {
    for (number, share) in shares.iter().enumerate() {
        for conflict in &share.parts.conflicts {
            let Some(earlier) = live(shares, number, conflict.earlier) else { continue };
            return Err(match live(shares, number, conflict.later) {
                Some(later) => overlap_error(earlier, later, conflict.byte),
                None => {
                    let later = share.parts.sources[conflict.later as usize].incarnation.writer;
                    lost_error(later, &[earlier])
                }
            });
        }
    }
    Ok(())
}

fn lost_error(owner: usize, senders: &[usize]) -> Error {
    let (noun, named) = (if senders.len() == 1 { "writer" } else { "writers" }, list(senders));
    Error::failed(format!(
        "writer {owner} was replaced after it had taken or changed pieces of {noun} {named}, which \
         are lost"
    ))
    .remedy("abandon the session, and begin another one")
}

fn overlap_error(one: usize, other: usize, byte: u64) -> Error {
    let (one, other) = (one.min(other), one.max(other));
    Error::usage(format!("writers {one} and {other} have both written byte {byte}"))
        .remedy("give each writer ranges of its own")
}

pub(super) fn missing_error(missing: &[usize], writers: usize) -> Error {
    let (noun, verb) = if missing.len() == 1 { ("writer", "has") } else { ("writers", "have") };
    Error::usage(format!("{noun} {} of {writers} {verb} not ended", list(missing)))
        .remedy("close the file of each writer before the commit, or abandon the session")
}

fn list(writers: &[usize]) -> String {
    let named: Vec<String> = writers.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = writers.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
