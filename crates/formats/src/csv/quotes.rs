//! Finds the ends of CSV records where quoted fields may hold line ends, and the quoting state at
//! split boundaries.
//!
//! Whether a line end ends a record depends on every quote before it, so a byte range alone does
//! not determine it. But a range does determine the state after it for each state before it; these
//! transitions, composed in order, give the state at any boundary. Splits are read in order, so a
//! reader finds the transitions of earlier splits computed, and the file is read once; a reader
//! that does not find them computes them.

use euphrates_flow::Result;
use memchr::{memchr, memchr_iter, memchr2};
use parking_lot::Mutex;

/// Quoting state at a byte of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuoteState {
    /// Outside of quotes, where a line end ends the record.
    #[default]
    Out,
    /// Inside a quoted field.
    Quoted,
    /// After a quote that closes the field, unless another quote follows.
    Closed,
}

const STATES: [QuoteState; 3] = [QuoteState::Out, QuoteState::Quoted, QuoteState::Closed];

/// The bytes of a dialect that determine where records end.
#[derive(Clone, Copy, Debug)]
pub struct Quoting {
    /// The byte between fields.
    pub delimiter: u8,
    /// The quote byte around fields that may hold any byte; `None` if every line end ends a record.
    pub quote: Option<u8>,
}

impl Quoting {
    /// This delimiter, and `"` as the quote.
    #[cfg(test)]
    pub fn usual(delimiter: u8) -> Quoting {
        Quoting { delimiter, quote: Some(b'"') }
    }

    /// For each of these states, entered after the byte `before`, the state after `bytes`: in one
    /// pass over them.
    fn advance<const N: usize>(
        self,
        mut states: [QuoteState; N],
        before: u8,
        bytes: &[u8],
    ) -> [QuoteState; N] {
        let Some(quote) = self.quote else { return states };
        // The end of the last quote.
        let mut end = 0;
        for at in memchr_iter(quote, bytes) {
            let previous = if at == 0 { before } else { bytes[at - 1] };
            let begins = previous == self.delimiter || matches!(previous, b'\n' | b'\r');
            for state in &mut states {
                *state = match state {
                    QuoteState::Quoted => QuoteState::Closed,
                    QuoteState::Closed if at == end => QuoteState::Quoted,
                    _ if begins => QuoteState::Quoted,
                    _ => QuoteState::Out,
                };
            }
            end = at + 1;
        }
        if end < bytes.len() {
            for state in states.iter_mut().filter(|state| **state == QuoteState::Closed) {
                *state = QuoteState::Out;
            }
        }
        states
    }

    /// The index after the first line end that ends a record, or the state after `bytes`.
    pub fn record_end(
        self,
        mut state: QuoteState,
        before: u8,
        bytes: &[u8],
    ) -> Result<usize, QuoteState> {
        let Some(quote) = self.quote else {
            return memchr(b'\n', bytes).map(|end| end + 1).ok_or(state);
        };
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found = match state {
                QuoteState::Closed => Some(0),
                QuoteState::Quoted => memchr(quote, rest),
                QuoteState::Out => memchr2(quote, b'\n', rest),
            };
            let Some(found) = found else { break };
            if state == QuoteState::Out && rest[found] == b'\n' {
                return Ok(at + found + 1);
            }
            (state, at) = self.step(quote, state, before, bytes, at + found);
        }
        Err(state)
    }

    /// Steps over the byte at `at`: a quote, or the byte after a closing quote.
    fn step(
        self,
        quote: u8,
        state: QuoteState,
        before: u8,
        bytes: &[u8],
        at: usize,
    ) -> (QuoteState, usize) {
        match state {
            QuoteState::Quoted => (QuoteState::Closed, at + 1),
            QuoteState::Closed if bytes[at] == quote => (QuoteState::Quoted, at + 1),
            QuoteState::Closed => (QuoteState::Out, at),
            QuoteState::Out => {
                let previous = if at == 0 { before } else { bytes[at - 1] };
                let begins = previous == self.delimiter || matches!(previous, b'\n' | b'\r');
                (if begins { QuoteState::Quoted } else { QuoteState::Out }, at + 1)
            }
        }
    }
}

/// The quoting states at the split boundaries of a file.
pub struct SplitQuoteStates {
    quoting: Quoting,
    /// The state after each split for each state before it. A split is locked while it is read, so
    /// a second reader that needs its transition waits instead of reading it again.
    transitions: Vec<Mutex<Option<[QuoteState; 3]>>>,
    /// The states before the first splits, as far as computed.
    states: Mutex<Vec<QuoteState>>,
}

impl SplitQuoteStates {
    /// Starts with no transition computed.
    pub fn new(quoting: Quoting, splits: usize) -> SplitQuoteStates {
        let transitions = (0..splits).map(|_| Mutex::default()).collect();
        SplitQuoteStates { quoting, transitions, states: Mutex::new(vec![QuoteState::Out]) }
    }

    /// The dialect's quoting, which all splits share.
    pub fn quoting(&self) -> Quoting {
        self.quoting
    }

    /// Computes the transition of a split with `read`, unless it is known.
    pub fn compute_transition(&self, split: usize, read: &SplitReader) -> Result<()> {
        let mut noted = self.transitions[split].lock();
        if noted.is_none() {
            let mut after = STATES;
            read(split, &mut |before, piece| {
                after = self.quoting.advance(after, before, piece);
            })?;
            *noted = Some(after);
        }
        Ok(())
    }

    /// The state before the first byte of a split, or at the end of the file if `split` is their
    /// number.
    pub fn state_before(&self, split: usize, read: &SplitReader) -> Result<QuoteState> {
        let mut states = self.states.lock();
        while states.len() <= split {
            let last = states.len() - 1;
            let noted = *self.transitions[last].lock();
            let transition = match noted {
                Some(transition) => transition,
                None => {
                    self.compute_transition(last, read)?;
                    self.transitions[last].lock().expect("just noted")
                }
            };
            let entered = states[last];
            states.push(transition[entered as usize]);
        }
        Ok(states[split])
    }
}

/// Reads a split and passes its pieces on in order, each with the byte before it.
pub type SplitReader<'a> = dyn Fn(usize, &mut dyn FnMut(u8, &[u8])) -> Result<()> + 'a;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COMMA: Quoting = Quoting { delimiter: b',', quote: Some(b'"') };

    #[test]
    fn quoted_line_ends_do_not_end_a_record() {
        let cases: [(&str, usize); 8] = [
            ("a,b\nc", 4),
            ("\"a\nb\"\nc", 6),
            ("\"a\"\"\nb\",x\nc", 10),
            ("a,\"\"\nc", 5),
            // A quote within an unquoted field is an ordinary character.
            ("5\" pipe\nc", 8),
            ("a \"b\nc", 5),
            ("\"a\"b\"c\nd", 7),
            ("x,\"\n\",y\nz", 8),
        ];
        for (text, expected) in cases {
            let found = COMMA.record_end(QuoteState::Out, b'\n', text.as_bytes());
            assert_eq!(found, Ok(expected), "{text:?}");
        }
    }

    /// The state after a text, found byte by byte.
    fn stepped(text: &[u8]) -> QuoteState {
        let (mut state, mut before) = (QuoteState::Out, b'\n');
        for byte in text {
            state = match (state, *byte) {
                (QuoteState::Quoted, b'"') => QuoteState::Closed,
                (QuoteState::Quoted, _) => QuoteState::Quoted,
                (QuoteState::Closed, b'"') => QuoteState::Quoted,
                (QuoteState::Out, b'"') if b",\n\r".contains(&before) => QuoteState::Quoted,
                _ => QuoteState::Out,
            };
            before = *byte;
        }
        state
    }

    proptest! {
        #[test]
        fn split_boundary_states_equal_those_of_one_pass(
            text in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'),
                Just(b'a')], 0..60),
            step in 1usize..7,
            piece_bytes in 1usize..4,
            ask_last_first: bool,
        ) {
            let splits = text.len().div_ceil(step);
            let cuts = SplitQuoteStates::new(COMMA, splits);
            let read = |split: usize, see: &mut dyn FnMut(u8, &[u8])| {
                let begin = split * step;
                let mut before = if begin == 0 { b'\n' } else { text[begin - 1] };
                for piece in text[begin..text.len().min(begin + step)].chunks(piece_bytes) {
                    see(before, piece);
                    before = piece[piece.len() - 1];
                }
                Ok(())
            };
            let order: Vec<usize> =
                if ask_last_first { (0..=splits).rev().collect() } else { (0..=splits).collect() };
            for split in order {
                let end = text.len().min(split * step);
                let expected = stepped(&text[..end]);
                prop_assert_eq!(cuts.state_before(split, &read).unwrap(), expected);
            }
        }
    }
}
