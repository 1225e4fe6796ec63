//! Chained calls: `name.lower()` is `lower(name)`, and `name.split(' ')[1].upper()` calls `upper`.

use datafusion_sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
};

/// Schemas of functions in other databases.
const SCHEMAS: [&str; 3] = ["main", "pg_catalog", "system"];

/// The call that the last of a chain is, with the value before it as the first argument.
pub(super) fn unchained(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => {
            let (name, path) = function.name.0.split_last().filter(|(_, path)| !path.is_empty())?;
            let name = name.as_ident()?;
            let path = path.iter().map(|part| part.as_ident().cloned());
            match &path.collect::<Option<Vec<Ident>>>()?[..] {
                [schema] if SCHEMAS.contains(&schema.value.to_lowercase().as_str()) => {
                    Some(named(function, name))
                }
                [column] => of_value(function, name, Expr::Identifier(column.clone())),
                path => of_value(function, name, Expr::CompoundIdentifier(path.to_vec())),
            }
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let is_call =
                |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Function(_)));
            let at = access_chain.iter().rposition(is_call)?;
            let AccessExpr::Dot(Expr::Function(function)) = &access_chain[at] else { return None };
            let value = accessed(root.as_ref().clone(), &access_chain[..at]);
            let name = function.name.0.last()?.as_ident()?;
            Some(accessed(of_value(function, name, value)?, &access_chain[at + 1..]))
        }
        _ => None,
    }
}

fn accessed(of: Expr, access_chain: &[AccessExpr]) -> Expr {
    match access_chain {
        [] => of,
        chain => Expr::CompoundFieldAccess { root: Box::new(of), access_chain: chain.to_vec() },
    }
}

fn named(function: &Function, name: &Ident) -> Expr {
    Expr::Function(Function { name: vec![name.clone()].into(), ..function.clone() })
}

/// A call with a value before its arguments. Functions of lists have short names there.
fn of_value(function: &Function, name: &Ident, value: Expr) -> Option<Expr> {
    let of_lists = match name.value.to_lowercase().as_str() {
        "apply" => Some("list_transform"),
        "filter" => Some("list_filter"),
        "reduce" => Some("list_reduce"),
        "aggregate" => Some("list_aggregate"),
        _ => None,
    };
    let name: ObjectName = vec![of_lists.map_or(name.clone(), Ident::new)].into();
    let mut call = Function { name, ..function.clone() };
    let FunctionArguments::List(list) = &mut call.args else { return None };
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(value)));
    Some(Expr::Function(call))
}
