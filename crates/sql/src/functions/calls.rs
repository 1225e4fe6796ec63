//! Calls of functions that are written here.

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    Value,
};

/// A call of a function.
pub(crate) fn call<const N: usize>(name: &str, args: [&Expr; N]) -> Expr {
    call_of(name, args.map(Expr::clone).into())
}

/// A call with any number of arguments.
pub(crate) fn call_of(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let args = args.collect();
    let args = FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] };
    Expr::Function(Function {
        name: vec![Ident::new(name)].into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Whether an expression is written as `null`.
pub(crate) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}
