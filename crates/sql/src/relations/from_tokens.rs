//! A query without a list, `from t where x > 1`, which the parser knows without clauses alone: all
//! columns are selected.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// The queries of a text within one pair of parentheses.
#[derive(Default)]
struct Level {
    /// Whether the next word begins a query.
    begins: bool,
    /// Whether common tables stand before the query.
    is_with: bool,
    /// Where `from` begins a query of which no `select` has come yet.
    from: Option<usize>,
}

impl Level {
    fn new() -> Level {
        Level { begins: true, ..Level::default() }
    }
}

/// Writes `select *` before such queries.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let (mut levels, mut places) = (vec![Level::new()], vec![]);
    for (at, token) in tokens.iter().enumerate() {
        let Some(level) = levels.last_mut() else { return };
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                level.begins = false;
                levels.push(Level::new());
                continue;
            }
            Token::RParen => {
                places.extend(level.from);
                levels.pop();
                // The query follows the last of the common tables.
                if let Some(around) = levels.last_mut() {
                    around.begins = around.is_with;
                }
                continue;
            }
            Token::SemiColon => {
                places.extend(level.from);
                *level = Level::new();
                continue;
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::FROM if level.begins => level.from = Some(at),
                Keyword::SELECT => (level.from, level.is_with) = (None, false),
                Keyword::WITH if level.begins => level.is_with = true,
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                    places.extend(level.from);
                    *level = Level::new();
                    continue;
                }
                // `union all by name`
                Keyword::ALL | Keyword::DISTINCT | Keyword::BY | Keyword::NAME if level.begins => {
                    continue;
                }
                _ => {}
            },
            _ => {}
        }
        level.begins = false;
    }
    places.extend(levels.iter().filter_map(|level| level.from));
    places.sort_unstable();
    for at in places.into_iter().rev() {
        let span = tokens[at].span;
        let keyword = Keyword::SELECT;
        let select = Token::Word(Word { value: "select".into(), quote_style: None, keyword });
        let space = Token::Whitespace(Whitespace::Space);
        let added = [select, space.clone(), Token::Mul, space];
        tokens.splice(at..at, added.map(|token| TokenWithSpan { token, span }));
    }
}
