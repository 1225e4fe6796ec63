//! The options of `copy … to`, with the names that DuckDB gives them.

use datafusion_sql::sqlparser::keywords::Keyword;
use datafusion_sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use euphrates_flow::error::unknown;
use euphrates_flow::{Error, Result};
use serde_json::{Map, Value, json};

/// DuckDB's names, and those of the options of `save` and `save_dataset`.
const NAMES: [(&str, &str); 22] = [
    ("format", "format"),
    ("compression", "compression"),
    ("codec", "compression"),
    ("overwrite", "overwrite"),
    ("append", "append"),
    ("mode", "mode"),
    ("partition_by", "partition_by"),
    ("file_size_bytes", "file_bytes"),
    ("file_bytes", "file_bytes"),
    ("filename_pattern", "file_name"),
    ("file_name", "file_name"),
    ("partitions_max", "partitions_max"),
    ("per_thread_output", "per_thread_output"),
    ("row_group_size_bytes", "row_group_bytes"),
    ("row_group_bytes", "row_group_bytes"),
    ("delimiter", "delimiter"),
    ("delim", "delimiter"),
    ("sep", "delimiter"),
    ("header", "header"),
    ("quote", "quote"),
    ("escape", "escape"),
    ("nullstr", "null_value"),
];

/// Options that only a folder of files has.
const OF_FOLDERS: [&str; 7] = [
    "append",
    "mode",
    "partition_by",
    "file_bytes",
    "file_name",
    "partitions_max",
    "per_thread_output",
];

/// The module to which the rows of a statement go.
pub(crate) struct StatementSink {
    pub(crate) module: &'static str,
    pub(crate) config: Value,
}

/// Takes the options of a `copy` statement out of its words, whose parser knows few of them.
pub(crate) fn take_options(tokens: &mut Vec<TokenWithSpan>) -> Result<Map<String, Value>> {
    let Some((from, to)) = options_at(tokens) else { return Ok(Map::new()) };
    let taken: Vec<Token> = tokens.drain(from..=to).map(|token| token.token).collect();
    let taken: Vec<Token> =
        taken.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let mut options = Map::new();
    for option in split_at_commas(&taken[1..taken.len() - 1]) {
        let (name, value) = parsed(option)?;
        if options.insert(name.into(), value).is_some() {
            return Err(Error::usage(format!("`{name}` is given twice")).remedy("give it once"));
        }
    }
    Ok(options)
}

/// The positions of the parentheses around the options: the last ones, behind `to 'path'`.
fn options_at(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let words: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_) | Token::EOF))
        .filter(|at| tokens[*at].token != Token::SemiColon)
        .collect();
    let token = |at: usize| &tokens[words[at]].token;
    let is_word =
        |at: usize, keyword| matches!(token(at), Token::Word(it) if it.keyword == keyword);
    if words.is_empty() || !is_word(0, Keyword::COPY) || *token(words.len() - 1) != Token::RParen {
        return None;
    }
    let (mut depth, mut at) = (0, words.len());
    loop {
        at = at.checked_sub(1)?;
        match token(at) {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let before = at.checked_sub(1).filter(|before| is_word(*before, Keyword::WITH));
    let path = before.unwrap_or(at).checked_sub(1)?;
    let is_path = matches!(token(path), Token::SingleQuotedString(_));
    (is_path && is_word(path.checked_sub(1)?, Keyword::TO))
        .then(|| (words[at], words[words.len() - 1]))
}

fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    let is_between = |token: &Token| {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        *token == Token::Comma && depth == 0
    };
    tokens.split(is_between).collect()
}

fn parsed(option: &[Token]) -> Result<(&'static str, Value)> {
    let [Token::Word(name), rest @ ..] = option else {
        return Err(Error::usage("an option of copy has no name").remedy("like (format parquet)"));
    };
    let given = name.value.to_lowercase();
    let given = if given == "null" { "nullstr" } else { &given };
    let known = NAMES.iter().find(|(name, _)| *name == given);
    let Some((_, name)) = known else {
        return Err(unknown("option of copy", given, NAMES.iter().map(|(name, _)| *name)));
    };
    let rest = if rest.first() == Some(&Token::Eq) { &rest[1..] } else { rest };
    let value = value(name, rest).ok_or_else(|| {
        let text: String = rest.iter().map(Token::to_string).collect();
        Error::usage(format!("`{text}` is no value of the option `{given}` of copy"))
    });
    Ok((name, value?))
}

/// The value of an option; `None` if it has another form.
fn value(name: &str, tokens: &[Token]) -> Option<Value> {
    let text = |token: &Token| match token {
        Token::Word(word) => Some(word.value.clone()),
        Token::SingleQuotedString(text) => Some(text.clone()),
        Token::Number(digits, _) => Some(digits.clone()),
        _ => None,
    };
    if name == "partition_by" {
        let inner = match tokens {
            [Token::LParen, inner @ .., Token::RParen] => inner,
            one => one,
        };
        let columns = split_at_commas(inner).into_iter().map(|column| match column {
            [column] => text(column),
            _ => None,
        });
        return columns.collect::<Option<Vec<String>>>().map(Value::from);
    }
    match (name, tokens) {
        ("overwrite" | "append" | "per_thread_output" | "header", []) => Some(true.into()),
        ("overwrite" | "append" | "per_thread_output" | "header", [one]) => {
            match text(one)?.to_lowercase().as_str() {
                "true" | "1" => Some(true.into()),
                "false" | "0" => Some(false.into()),
                _ => None,
            }
        }
        ("file_bytes" | "row_group_bytes" | "partitions_max", tokens) => {
            let all: Option<String> = tokens.iter().map(text).collect();
            bytes(&all?).map(Value::from)
        }
        ("format" | "compression" | "mode", [one]) => Some(text(one)?.to_lowercase().into()),
        (_, [one]) => Some(text(one)?.into()),
        _ => None,
    }
}

/// The number in `1000`, `'100MB'` or `'1GiB'`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The module that writes the rows: to a folder if the path or an option says so.
pub(crate) fn sink(path: String, mut options: Map<String, Value>) -> Result<StatementSink> {
    let is_folder = path.ends_with('/') || OF_FOLDERS.iter().any(|it| options.contains_key(*it));
    options.insert("path".into(), path.into());
    if !is_folder {
        return Ok(StatementSink { module: "save", config: Value::Object(options) });
    }
    options.remove("per_thread_output");
    let is_set = |value: Option<Value>| value == Some(true.into());
    let modes = [("overwrite", options.remove("overwrite")), ("append", options.remove("append"))];
    for (mode, value) in modes {
        if is_set(value) && options.insert("mode".into(), mode.into()).is_some() {
            return Err(Error::usage("copy may overwrite or append, not both").remedy("say one"));
        }
    }
    let of_csv = ["delimiter", "header", "quote", "escape", "null_value"];
    if let Some(name) = of_csv.iter().find(|name| options.contains_key(**name)) {
        let error = Error::usage(format!("copy to a folder has no option `{name}`"));
        return Err(error.remedy("leave it out, or write one file"));
    }
    // DuckDB's files are told apart by a number, or by a text that no other has.
    if let Some(Value::String(template)) = options.get("file_name") {
        let template = template.replace("{uuid}", "{run}-{i}");
        let end = if template.contains("{i}") { "" } else { "{i}" };
        options.insert("file_name".into(), json!(format!("{template}{end}")));
    }
    Ok(StatementSink { module: "save_dataset", config: Value::Object(options) })
}
