//! The SQL dialect, and a bound on the parser's backtracking.
//!
//! If the text behind a word like `cast` is malformed, the parser reads it again with the word as a
//! name. Nested ones would be read twice at each level.

use std::any::TypeId;
use std::cell::Cell;

use euphrates_flow::spec::lambda_argument::{ArgumentToken, function_of_argument};
use sqlparser::ast::{
    Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
};
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::functions::lambda_kinds::LambdaKind;

/// The generic dialect, for one text.
#[derive(Debug)]
pub(crate) struct Sql {
    generic: GenericDialect,
    /// How often the parser may still backtrack.
    left: Cell<usize>,
}

impl Sql {
    /// For a text of at most `words_max` words, each of which may cause one backtrack.
    pub(crate) fn of_words(words_max: usize) -> Sql {
        Sql { generic: GenericDialect {}, left: Cell::new(words_max) }
    }
}

macro_rules! as_generic {
    ($($name:ident)*) => { $(fn $name(&self) -> bool { self.generic.$name() })* };
}

impl Dialect for Sql {
    fn dialect(&self) -> TypeId {
        self.generic.dialect()
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0 || self.generic.is_reserved_for_identifier(word)
    }

    /// `lambda x, y: …`, and `x -> …` or `(x, y) -> …` as an argument of a function that takes a
    /// lambda; elsewhere the arrow is that of JSON.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let (names, count) = lambda_parameters(parser)?;
        (0..count).for_each(|_| parser.advance_token());
        let parameter = |name| LambdaFunctionParameter { name, data_type: None };
        let params = OneOrManyWithParens::Many(names.into_iter().map(parameter).collect());
        let syntax = LambdaSyntax::LambdaKeyword;
        Some(
            parser
                .parse_expr()
                .map(|body| Expr::Lambda(LambdaFunction { params, body: Box::new(body), syntax })),
        )
    }

    /// `is [not] distinct from`, whose right side ends before `and` and `or`: the parser gives it
    /// all that follows.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        _: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let is_negated = match parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            true => true,
            false if parser.parse_keywords(&[IS, DISTINCT, FROM]) => false,
            false => return None,
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        let (left, right) = (Box::new(left.clone()), right.map(Box::new));
        Some(right.map(|right| match is_negated {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    /// `||` ranks below arithmetic: `'a' || n + 1` is `'a' || (n + 1)`.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        let is_concatenation = parser.peek_token_ref().token == Token::StringConcat;
        is_concatenation.then(|| Ok(self.prec_value(Precedence::Pipe)))
    }

    fn is_delimited_identifier_start(&self, start: char) -> bool {
        self.generic.is_delimited_identifier_start(start)
    }

    fn is_identifier_start(&self, start: char) -> bool {
        self.generic.is_identifier_start(start)
    }

    fn is_identifier_part(&self, part: char) -> bool {
        self.generic.is_identifier_part(part)
    }

    // Delegates everything that the generic dialect defines.
    as_generic! {
        allow_extract_custom allow_extract_single_quotes support_map_literal_syntax
        supports_array_join_syntax supports_array_typedef_with_brackets
        supports_asc_desc_in_column_definition supports_bitwise_shift_operators
        supports_comma_separated_set_assignments supports_comma_separated_trim supports_comment_on
        supports_comment_optimizer_hint supports_connect_by
        supports_constraint_keyword_without_name supports_create_index_with_clause
        supports_create_view_comment_syntax supports_cte_without_as
        supports_data_type_signed_suffix supports_detach supports_dictionary_syntax
        supports_empty_projections supports_explain_with_utility_options
        supports_extract_comma_syntax supports_filter_during_aggregation supports_from_first_select
        supports_group_by_expr supports_group_by_with_modifier supports_install
        supports_interpolate supports_interval_options supports_key_column_option
        supports_left_associative_joins_without_parens supports_limit_by supports_limit_comma
        supports_load_extension supports_match_against supports_match_recognize
        supports_multiline_comment_hints supports_named_fn_args_with_assignment_operator
        supports_nested_comments supports_optimize_table supports_parens_around_table_factor
        supports_parenthesized_set_variables supports_partition_by_after_order_by
        supports_pipe_operator supports_prewhere supports_projection_trailing_commas
        supports_quote_delimited_string supports_select_format
        supports_select_item_multi_column_alias supports_select_wildcard_except
        supports_select_wildcard_exclude supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_select_wildcard_replace supports_set_names
        supports_settings supports_start_transaction_modifier supports_string_escape_constant
        supports_struct_literal supports_try_convert supports_unicode_string_literal
        supports_update_order_by supports_user_host_grantee supports_values_as_table_factor
        supports_window_clause_named_window_reference supports_window_function_null_treatment_arg
        supports_with_fill supports_xml_expressions
    }
}

/// The parameters of a lambda that begins here, and how many tokens end with its sign.
fn lambda_parameters(parser: &Parser) -> Option<(Vec<Ident>, usize)> {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    let is_keyword = |at: usize| match token(at) {
        Token::Word(word) => word.keyword == Keyword::LAMBDA && word.quote_style.is_none(),
        _ => false,
    };
    let (first, end) = match token(0) {
        Token::Word(_) if is_keyword(0) && matches!(token(1), Token::Word(_)) => (1, Token::Colon),
        Token::Word(_) if *token(1) == Token::Arrow => (0, Token::Arrow),
        Token::LParen if matches!(token(1), Token::Word(_)) => (1, Token::RParen),
        _ => return None,
    };
    let mut names = vec![];
    for at in (first..).step_by(2) {
        let Token::Word(word) = token(at) else { return None };
        names.push(word.clone().into_ident(parser.peek_nth_token_ref(at).span));
        match token(at + 1) {
            Token::Comma => {}
            sign if *sign == end => break,
            _ => return None,
        }
    }
    let count = first + 2 * names.len();
    match end {
        Token::Colon => Some((names, count)),
        Token::RParen if *token(count) != Token::Arrow => None,
        _ if !is_lambda_argument(parser) => None,
        Token::RParen => Some((names, count + 1)),
        _ => Some((names, count)),
    }
}

/// Whether an argument begins here, not the first one, of a function that takes a lambda.
fn is_lambda_argument(parser: &Parser) -> bool {
    let before = (0..parser.index()).rev().map(|at| &parser.token_at(at).token);
    let before = before.filter(|token| !matches!(token, Token::Whitespace(_)));
    let function = function_of_argument(before.map(|token| match token {
        Token::LParen => ArgumentToken::OpeningParenthesis,
        Token::LBracket | Token::LBrace => ArgumentToken::OpeningBracket,
        Token::RParen | Token::RBracket | Token::RBrace => ArgumentToken::Closing,
        Token::Comma => ArgumentToken::Comma,
        Token::Word(name) => ArgumentToken::Word(&name.value),
        _ => ArgumentToken::Other,
    }));
    function.is_some_and(|name| LambdaKind::named(name).is_some())
}
