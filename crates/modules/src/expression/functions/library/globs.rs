//! Patterns of shells: `*` is any text, `?` any character, `[a-c]` one of these, `[!a-c]` another;
//! behind a backslash each stands for itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};

use super::row_functions::ArgumentKind::Text;
use super::row_functions::{Computed, ResultKind, RowFunction, each, text};

pub(super) const FUNCTIONS: [RowFunction; 1] = [RowFunction {
    names: &["_glob"],
    takes: &[Text, Text],
    optional: 0,
    returns: ResultKind::Boolean,
    compute: matched,
}];

fn matched(args: &[ArrayRef]) -> Computed<ArrayRef> {
    let mut last: Option<(&str, Vec<PatternSign>)> = None;
    let found = each(args, |row| {
        let pattern = text(args, 1).value(row);
        if last.as_ref().is_none_or(|(known, _)| *known != pattern) {
            last = Some((pattern, signs(pattern)));
        }
        let signs = last.as_ref().map_or(&[][..], |(_, signs)| signs);
        Ok(Some(is_match(text(args, 0).value(row), signs)))
    })?;
    Ok(Arc::new(BooleanArray::from(found)))
}

/// A part of a pattern.
#[derive(Debug, PartialEq)]
enum PatternSign {
    AnyText,
    AnyLetter,
    Letter(char),
    /// One of these ranges, or none.
    OneOf {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    /// A `[` without an end.
    Nothing,
}

fn signs(pattern: &str) -> Vec<PatternSign> {
    let mut signs = vec![];
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        signs.push(match letter {
            '*' => PatternSign::AnyText,
            '?' => PatternSign::AnyLetter,
            '\\' => PatternSign::Letter(letters.next().unwrap_or('\\')),
            '[' => {
                let negated = letters.next_if_eq(&'!').is_some();
                let (mut ranges, mut is_closed) = (vec![], false);
                while let Some(letter) = letters.next() {
                    if letter == ']' && !ranges.is_empty() {
                        is_closed = true;
                        break;
                    }
                    let mut ahead = letters.clone();
                    let last = match (ahead.next(), ahead.next()) {
                        (Some('-'), Some(last)) if last != ']' => {
                            letters = ahead;
                            last
                        }
                        _ => letter,
                    };
                    ranges.push((letter, last));
                }
                match is_closed {
                    true => PatternSign::OneOf { ranges, negated },
                    false => PatternSign::Nothing,
                }
            }
            letter => PatternSign::Letter(letter),
        });
    }
    signs
}

/// Whether the whole text matches. Only the last `*` is retried, so the steps are bounded by the
/// product of the lengths.
fn is_match(text: &str, signs: &[PatternSign]) -> bool {
    let (mut rest, mut at) = (text.chars(), 0);
    let mut retry: Option<(usize, std::str::Chars)> = None;
    loop {
        match signs.get(at) {
            Some(PatternSign::AnyText) => {
                at += 1;
                retry = Some((at, rest.clone()));
                continue;
            }
            Some(sign) => {
                let mut ahead = rest.clone();
                if ahead.next().is_some_and(|letter| sign.takes(letter)) {
                    (rest, at) = (ahead, at + 1);
                    continue;
                }
            }
            None if rest.as_str().is_empty() => return true,
            None => {}
        }
        let Some((behind, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (rest, at) = (from.clone(), *behind);
    }
}

impl PatternSign {
    fn takes(&self, letter: char) -> bool {
        match self {
            PatternSign::AnyLetter => true,
            PatternSign::Letter(known) => *known == letter,
            PatternSign::OneOf { ranges, negated } => {
                let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter));
                is_in != *negated
            }
            PatternSign::AnyText | PatternSign::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_texts_match_patterns() {
        for (text, pattern, expected) in [
            ("abc", "a*", true),
            ("abc", "*c", true),
            ("abc", "*b", false),
            ("abab", "*ab", true),
            ("aXbXc", "a*X*c", true),
            ("abc", "[a-b]?c", true),
            ("abc", "[!a]*", false),
            ("-", "[a-]", true),
            ("]", "[]]", true),
            ("a*", "a\\*", true),
            ("ab", "a\\*", false),
            ("", "*", true),
            ("", "?", false),
            ("é", "?", true),
            ("a", "[a", false),
        ] {
            assert_eq!(is_match(text, &signs(pattern)), expected, "{text} {pattern}");
        }
    }
}
