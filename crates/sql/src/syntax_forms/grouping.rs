//! Sets of groups in forms that the planner takes: `rollup` and `cube` of keys in parentheses, keys
//! that come twice, `rollup` and `cube` within `grouping sets`, and `group by ()`.

use datafusion_sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Select,
    SelectItem, Value,
};

use super::inner_orders::has_aggregate;

/// A cube of more keys has too many sets.
const CUBE_KEYS_MAX: usize = 12;

/// Rewrites the keys of a selection.
pub(super) fn rewrite(group_by: &mut GroupByExpr, selected: &[SelectItem]) {
    let GroupByExpr::Expressions(keys, _) = group_by else { return };
    for key in keys.iter_mut() {
        let (Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets)) = key else {
            continue;
        };
        for key in sets.iter_mut().flatten() {
            if let Some(meant) = numbered(key, selected) {
                *key = meant;
            }
        }
    }
    if keys.is_empty() {
        return;
    }
    *keys = keys.drain(..).flat_map(columns_of).map(sets).collect();
    if keys.is_empty() {
        // One group of all rows, which are not grouped without keys.
        keys.push(Expr::GroupingSets(vec![vec![]]));
    }
}

/// The selected value that a key means by its number. The planner knows numbers of single keys.
fn numbered(key: &Expr, selected: &[SelectItem]) -> Option<Expr> {
    let Expr::Value(value) = key else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    match selected.get(digits.parse::<usize>().ok()?.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    }
}

/// Makes one group of all rows, of which a condition without aggregates is asked: the planner knows
/// that by an aggregate alone.
pub(super) fn group_all(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let is_constant = select.having.as_ref().is_some_and(|condition| !has_aggregate(condition));
    if is_constant && keys.is_empty() {
        keys.push(Expr::GroupingSets(vec![vec![]]));
    }
}

/// The keys that a key of groups in parentheses has: `group by (a, b)`, and none for `()`.
fn columns_of(key: Expr) -> Vec<Expr> {
    match key {
        Expr::Tuple(keys) => keys.into_iter().flat_map(columns_of).collect(),
        other => vec![other],
    }
}

/// The sets of a key that the planner does not take as it is.
fn sets(key: Expr) -> Expr {
    match &key {
        Expr::Rollup(keys) if is_unusual(keys) => written(rollup(keys)),
        Expr::Cube(keys) if is_unusual(keys) && keys.len() <= CUBE_KEYS_MAX => written(cube(keys)),
        Expr::GroupingSets(sets) => written(sets.iter().flat_map(|set| inner(set)).collect()),
        _ => key,
    }
}

/// Whether keys stand in parentheses together, or one comes twice.
fn is_unusual(keys: &[Vec<Expr>]) -> bool {
    let all: Vec<&Expr> = keys.iter().flatten().collect();
    let is_again = |(at, key): (usize, &&Expr)| all[..at].contains(key);
    keys.iter().any(|key| key.len() > 1) || all.iter().enumerate().any(is_again)
}

fn rollup(keys: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=keys.len()).rev().map(|count| keys[..count].concat()).collect()
}

fn cube(keys: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    let chosen = |left_out: usize| {
        let is_chosen = |at: &usize| left_out >> at & 1 == 0;
        (0..keys.len()).filter(is_chosen).flat_map(|at| keys[at].clone()).collect()
    };
    (0..1_usize << keys.len()).map(chosen).collect()
}

/// The sets that one of `grouping sets` stands for: the parser takes `cube (a, b)` as a call there.
fn inner(set: &[Expr]) -> Vec<Vec<Expr>> {
    let [Expr::Function(call)] = set else { return vec![set.to_vec()] };
    let name = call.name.to_string().to_lowercase();
    let keys = || arguments(call).filter(|keys| keys.len() <= CUBE_KEYS_MAX);
    match name.as_str() {
        "rollup" => keys().map(|keys| rollup(&keys)),
        "cube" => keys().map(|keys| cube(&keys)),
        _ => None,
    }
    .unwrap_or_else(|| vec![set.to_vec()])
}

fn arguments(call: &Function) -> Option<Vec<Vec<Expr>>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let keys = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) => Some(columns_of(key.clone())),
        _ => None,
    });
    keys.collect()
}

/// The sets, each with each key once.
fn written(sets: Vec<Vec<Expr>>) -> Expr {
    let once = |set: Vec<Expr>| {
        set.into_iter().fold(vec![], |mut once: Vec<Expr>, key| {
            if !once.contains(&key) {
                once.push(key);
            }
            once
        })
    };
    Expr::GroupingSets(sets.into_iter().map(once).collect())
}
