//! Names are the same whatever their capitals, and keep the spelling of their first appearance:
//! that of the tables' columns, then that of the query. Words that may be functions, like `user`,
//! are names where a column has that name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::catalog::QueryTable;
use crate::expressions::CALLED_WORDS;

/// Replaces each name by its first spelling, in the tables and in the query.
pub(crate) fn one_spelling(tokens: &mut [TokenWithSpan], tables: &mut [QueryTable]) {
    let mut spellings: HashMap<String, String> = HashMap::new();
    for table in &mut *tables {
        let lower = table.name.to_lowercase();
        spellings.entry(lower).or_insert_with(|| table.name.clone());
        // A table may have columns that differ in capitals alone.
        let mut seen = HashSet::new();
        let fields = table.schema.fields().iter().map(|field| -> FieldRef {
            let lower = field.name().to_lowercase();
            let first = spellings.entry(lower.clone()).or_insert_with(|| field.name().clone());
            let is_exact = !seen.insert(lower) || first == field.name();
            match is_exact {
                true => field.clone(),
                false => Arc::new(field.as_ref().clone().with_name(first.clone())),
            }
        });
        table.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    }
    let columns = tables.iter().flat_map(|table| table.schema.fields());
    let exact: HashSet<&str> = columns.map(|field| field.name().as_str()).collect();
    let quoted: HashSet<String> =
        tokens.iter().filter_map(|token| quoted_word(&token.token)).collect();
    for token in tokens {
        let Token::Word(word) = &mut token.token else { continue };
        if CALLED_WORDS.contains(&word.keyword) && word.quote_style.is_none() {
            let lower = word.value.to_lowercase();
            let is_column = exact.iter().any(|name| name.to_lowercase() == lower);
            if is_column || quoted.contains(&lower) {
                word.quote_style = Some('"');
                word.keyword = Keyword::NoKeyword;
            }
        }
        if word.quote_style.is_some() && exact.contains(word.value.as_str()) {
            continue;
        }
        let first = spellings.entry(word.value.to_lowercase());
        word.value.clone_from(first.or_insert_with(|| word.value.clone()));
    }
}

/// The word that is written in quotes.
fn quoted_word(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_some() => Some(word.value.to_lowercase()),
        _ => None,
    }
}
