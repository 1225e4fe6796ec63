//! The SQL dialect, and a bound on the parser's backtracking.
//!
//! If the text behind a word like `cast` is malformed, the parser reads it again with the word as a
//! name. Nested ones would be read twice at each level.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

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
