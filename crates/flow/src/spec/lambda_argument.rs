//! Decides whether a lambda may begin at a token. Expressions of modules and SQL queries share the
//! rule, each with the tokens of its own parser.

/// What a token is to the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentToken<'a> {
    /// `(`.
    OpeningParenthesis,
    /// `[` or `{`.
    OpeningBracket,
    /// `)`, `]` or `}`.
    Closing,
    /// `,`.
    Comma,
    /// A name.
    Word(&'a str),
    /// Anything else but blanks.
    Other,
}

/// The name of the function of which an argument begins here, not the first one. `before` are the
/// tokens before, the nearest first.
///
/// ```
/// use euphrates_flow::spec::lambda_argument::{ArgumentToken::*, function_of_argument};
///
/// // `list_filter([1, 2], `
/// let before = [Comma, Closing, Other, Comma, Other, OpeningBracket, OpeningParenthesis];
/// let before = before.into_iter().chain([Word("list_filter")]);
/// assert_eq!(function_of_argument(before), Some("list_filter"));
/// assert_eq!(function_of_argument([OpeningParenthesis, Word("abs")].into_iter()), None);
/// ```
pub fn function_of_argument<'a>(
    mut before: impl Iterator<Item = ArgumentToken<'a>>,
) -> Option<&'a str> {
    use ArgumentToken::{Closing, Comma, OpeningBracket, OpeningParenthesis, Word};
    if before.next() != Some(Comma) {
        return None;
    }
    let mut depth = 0;
    loop {
        match before.next()? {
            Closing => depth += 1,
            OpeningParenthesis | OpeningBracket if depth > 0 => depth -= 1,
            OpeningBracket => return None,
            OpeningParenthesis => {
                let Word(name) = before.next()? else { return None };
                return Some(name);
            }
            _ => {}
        }
    }
}
