//! Keys of several joins with `using` in a row, without a table: the planner, which knows the keys
//! of one join as one column, takes them for ambiguous. They are those of the first table.

use datafusion_sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins,
};

use super::own_level::each_expression;
use super::star_columns::constraint_of;

/// Names the table of such keys in a query's own selection, and in its order.
pub(super) fn qualify(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut keys = keys_of(select);
    if keys.is_empty() {
        return;
    }
    let mut name_table = |expr: &mut Expr| self::name_table(&keys, expr);
    each_expression(&mut select.projection, &mut name_table);
    each_expression(&mut select.selection, &mut name_table);
    each_expression(&mut select.having, &mut name_table);
    each_expression(&mut select.qualify, &mut name_table);
    if let GroupByExpr::Expressions(by, _) = &mut select.group_by {
        each_expression(by, &mut name_table);
    }
    // An order may name a column of the result.
    keys.retain(|(key, _)| !select.projection.iter().any(|item| is_named(item, &key.value)));
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(by) = &mut order.kind
    {
        let mut name_table = |expr: &mut Expr| self::name_table(&keys, expr);
        by.iter_mut().for_each(|key| each_expression(&mut key.expr, &mut name_table));
    }
}

/// Names the table of a key that stands without one.
fn name_table(keys: &[(Ident, Ident)], expr: &mut Expr) {
    if let Expr::Identifier(name) = expr
        && let Some((key, table)) = keys.iter().find(|(key, _)| key.value == name.value)
    {
        *expr = Expr::CompoundIdentifier(vec![table.clone(), key.clone()]);
    }
}

/// The keys that more than one join has, with the first table.
fn keys_of(select: &Select) -> Vec<(Ident, Ident)> {
    let mut keys: Vec<(Ident, Ident)> = vec![];
    for TableWithJoins { relation, joins } in &select.from {
        let Some(table) = name_of(relation) else { continue };
        let names = |at: usize| match joins.get(at).and_then(|it| constraint_of(&it.join_operator))
        {
            Some(JoinConstraint::Using(names)) => names.as_slice(),
            _ => &[],
        };
        for name in names(0) {
            let Some(key) = name.0.last().and_then(|part| part.as_ident()) else { continue };
            if (1..joins.len()).any(|at| names(at).contains(name)) {
                keys.push((key.clone(), table.clone()));
            }
        }
    }
    keys
}

fn name_of(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => match &name.0[..] {
            [part] => part.as_ident().cloned(),
            _ => None,
        },
        _ => None,
    }
}

fn is_named(item: &SelectItem, name: &str) -> bool {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value == name,
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|part| part.value == name)
        }
        _ => false,
    }
}
