//! Names in the place of columns that follow from the tables' columns: a table, `select t from t`,
//! which is a struct of its row, and a position, `#1`.

use datafusion_sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, Value,
};

use super::own_level::each_expression;
use super::star_items::{SelectedColumn, named, quoted, same};
use crate::functions::calls::call_of;
use crate::output_names::tables_of;

/// Whether a selection may have such names.
pub(super) fn has_some(select: &mut Select) -> bool {
    let tables = row_names(select);
    let mut is_found = false;
    each_of(select, &mut |expr| {
        if let Expr::Identifier(name) = expr {
            is_found |= position(name).is_some() || is_among(&tables, &name.value);
        }
    });
    is_found
}

/// Whether an item is a star behind a name that no table has: `s.*` of a struct.
pub(super) fn is_star_of_struct(item: &SelectItem, select: &Select) -> bool {
    match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let name = name.0.last().and_then(|part| part.as_ident());
            name.is_some_and(|name| !is_among(&tables(select), &name.value))
        }
        _ => false,
    }
}

/// The columns of a table alone, by the table's name.
pub(super) type TableColumns = Vec<(String, Vec<SelectedColumn>)>;

/// The tables whose rows a selection names.
pub(super) fn named_tables(select: &mut Select) -> Vec<TableFactor> {
    let tables = row_names(select);
    let mut names = vec![];
    each_of(select, &mut |expr| {
        if let Expr::Identifier(name) = expr
            && is_among(&tables, &name.value)
        {
            names.push(name.value.clone());
        }
    });
    let joined = |table: &TableWithJoins| {
        let joins = table.joins.iter().map(|join| join.relation.clone()).collect::<Vec<_>>();
        std::iter::once(table.relation.clone()).chain(joins)
    };
    let all = select.from.iter().flat_map(joined);
    all.filter(|table| name_of(table).is_some_and(|name| is_among(&names, &name))).collect()
}

/// The name of a table.
pub(super) fn name_of(relation: &TableFactor) -> Option<String> {
    let alone = TableWithJoins { relation: relation.clone(), joins: vec![] };
    tables_of(&alone).pop()
}

/// Writes the columns in the place of such names. `columns` are those of all tables, `rows` those
/// of the tables whose rows are named: of these, a key of `using` is one as well.
pub(super) fn write(select: &mut Select, columns: &[SelectedColumn], rows: &TableColumns) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Expr::Identifier(name) = &*expr
            && let Some((value, name)) = written(name, rows, columns)
        {
            *item = SelectItem::ExprWithAlias { expr: value, alias: quoted(&name) };
        }
    }
    each_of(select, &mut |expr| {
        if let Expr::Identifier(name) = &*expr
            && let Some((value, _)) = written(name, rows, columns)
        {
            *expr = value;
        }
    });
}

/// Writes positions in an order, which are those of the selected columns.
pub(super) fn write_order(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    for key in keys {
        if let Expr::Identifier(name) = &key.expr
            && let Some(at) = position(name)
        {
            key.expr = Expr::value(Value::Number(at.to_string(), false));
        }
    }
}

/// The value of such a name, and what it is called.
fn written(
    name: &Ident,
    rows: &TableColumns,
    columns: &[SelectedColumn],
) -> Option<(Expr, String)> {
    if let Some(at) = position(name) {
        let column = columns.get(at.checked_sub(1)?)?;
        return Some((named(column, columns), column.name.clone()));
    }
    if columns.iter().any(|column| same(&column.name, &name.value)) {
        return None;
    }
    let (_, fields) = rows.iter().find(|(table, _)| same(table, &name.value))?;
    let fields = fields.iter().flat_map(|column| {
        let field = Expr::value(Value::SingleQuotedString(column.name.clone()));
        let parts = [name.value.as_str(), column.name.as_str()];
        [field, Expr::CompoundIdentifier(parts.map(quoted).to_vec())]
    });
    let fields: Vec<Expr> = fields.collect();
    (!fields.is_empty()).then(|| (call_of("named_struct", fields), name.value.clone()))
}

/// The position that a name like `#1` is.
fn position(name: &Ident) -> Option<usize> {
    name.value.strip_prefix('#').filter(|_| name.quote_style.is_none())?.parse().ok()
}

/// The names of the tables that may stand for their rows: those that are no alias, no parameter of
/// a lambda and no field of a struct in the selection.
fn row_names(select: &mut Select) -> Vec<String> {
    let mut tables = tables(select);
    if tables.is_empty() {
        return tables;
    }
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    });
    let mut others: Vec<String> = aliases.collect();
    each_of(select, &mut |expr| match expr {
        Expr::Lambda(lambda) => {
            others.extend(lambda.params.iter().map(|param| param.name.value.clone()));
        }
        Expr::CompoundFieldAccess { access_chain, .. } => {
            others.extend(access_chain.iter().filter_map(|step| match step {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(name.value.clone()),
                _ => None,
            }));
        }
        _ => {}
    });
    tables.retain(|table| !is_among(&others, table));
    tables
}

fn tables(select: &Select) -> Vec<String> {
    select.from.iter().flat_map(tables_of).collect()
}

fn is_among(tables: &[String], name: &str) -> bool {
    tables.iter().any(|table| same(table, name))
}

/// Calls `each` with the expressions of a selection's own level.
fn each_of(select: &mut Select, each: &mut dyn FnMut(&mut Expr)) {
    each_expression(&mut select.projection, each);
    each_expression(&mut select.selection, each);
    each_expression(&mut select.having, each);
    each_expression(&mut select.qualify, each);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        each_expression(keys, each);
    }
}
