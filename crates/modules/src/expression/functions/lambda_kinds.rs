//! The functions that take a lambda.

/// What is done with the values of a lambda's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LambdaKind {
    /// They are the items of the result.
    Transform,
    /// They tell which items stay.
    Filter,
    /// Each is the first parameter for the next item.
    Reduce,
}

impl LambdaKind {
    /// The kind of the function of this name.
    pub(crate) fn named(name: &str) -> Option<LambdaKind> {
        match name.to_lowercase().as_str() {
            "list_transform" | "array_transform" | "list_apply" | "array_apply" | "apply" => {
                Some(LambdaKind::Transform)
            }
            "list_filter" | "array_filter" | "filter" => Some(LambdaKind::Filter),
            "list_reduce" | "array_reduce" | "reduce" => Some(LambdaKind::Reduce),
            _ => None,
        }
    }

    /// The name of its function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LambdaKind::Transform => "list_transform",
            LambdaKind::Filter => "list_filter",
            LambdaKind::Reduce => "list_reduce",
        }
    }
}
