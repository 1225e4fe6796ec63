//! `array(select …)`: a list of the rows of a query with one column, in its order.

use datafusion_sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
};

use crate::relations::parsed_expression;

/// The subquery that makes the list; `None` if the order is by what it does not list, and rows are
/// grouped, distinct or limited.
pub(super) fn list_of_rows(query: &Query) -> Option<Expr> {
    let keys = match &query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => &keys[..],
        _ => &[],
    };
    let select = first_select(&query.body);
    let item = select.and_then(|select| match &select.projection[..] {
        [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] => {
            Some(item)
        }
        _ => None,
    });
    let ordered = |of: &str, is_item_alone: bool| {
        let keys = keys.iter().map(|key| {
            let mut key = key.clone();
            if is_item(&key.expr, item, select) {
                key.expr = parsed_expression(of)?;
            } else if is_item_alone {
                return None;
            }
            Some(key.to_string())
        });
        let keys = keys.collect::<Option<Vec<_>>>()?.join(", ");
        let by = if keys.is_empty() { "" } else { " order by " };
        Some(format!("coalesce(array_agg({of}{by}{keys}), [])"))
    };
    if let Some(list) = ordered("item", true) {
        return parsed_expression(&format!("(select {list} from ({query}) as listed_rows (item))"));
    }
    // The keys are other columns of the tables.
    let is_one = matches!(query.body.as_ref(), SetExpr::Select(_));
    let plain =
        select.filter(|select| is_one && is_plain(select) && query.limit_clause.is_none())?;
    let list = ordered(&item?.to_string(), false)?;
    let projection = vec![SelectItem::UnnamedExpr(parsed_expression(&list)?)];
    let mut listed = query.clone();
    listed.order_by = None;
    listed.body = Box::new(SetExpr::Select(Box::new(Select { projection, ..plain.clone() })));
    Some(Expr::Subquery(Box::new(listed)))
}

/// The selection whose columns name those of a query.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&query.body),
        _ => None,
    }
}

/// Whether a key of the order is what is listed.
fn is_item(key: &Expr, item: Option<&Expr>, select: Option<&Select>) -> bool {
    let is_name = match (key, select.map(|select| &select.projection[..])) {
        (Expr::Identifier(name), Some([SelectItem::ExprWithAlias { alias, .. }])) => alias == name,
        // With the name of its table, or without.
        (Expr::CompoundIdentifier(path), _) => match item {
            Some(Expr::Identifier(name)) => path.last() == Some(name),
            _ => false,
        },
        (Expr::Identifier(name), _) => match item {
            Some(Expr::CompoundIdentifier(path)) => path.last() == Some(name),
            _ => false,
        },
        _ => false,
    };
    is_name || Some(key) == item || key.to_string() == "1"
}

/// Whether a query has a row for each one of its tables that the condition keeps.
fn is_plain(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    !is_grouped && select.distinct.is_none() && select.having.is_none()
}
