//! Names of tables that columns have, too: in a subquery, the planner takes `customer.id` for a
//! field of its own column `customer`, although a query around it has a table of that name. Such
//! tables get another name.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, VisitMut, VisitorMut,
};

/// Renames such tables of a query; `columns` are the names of all columns of tables.
pub(crate) fn rename<'a>(query: &mut Query, columns: impl Iterator<Item = &'a str>) {
    let columns: HashSet<String> = columns.map(str::to_lowercase).collect();
    let mut uses = Uses { columns: &columns, scopes: vec![], found: HashSet::new() };
    let _: ControlFlow<()> = query.visit(&mut uses);
    let names = uses.found;
    if !names.is_empty() {
        let _: ControlFlow<()> = query.visit(&mut TableNames { columns, names, scopes: vec![] });
    }
}

/// Finds the names of tables by which subqueries mean those of queries around them.
struct Uses<'a> {
    columns: &'a HashSet<String>,
    /// The names of the tables of the queries around, the innermost last.
    scopes: Vec<HashSet<String>>,
    found: HashSet<String>,
}

impl VisitorMut for Uses<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut names = HashSet::new();
        each_table(&mut query.body, &mut |table| names.extend(name_of(table)));
        self.scopes.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some((own, around)) = self.scopes.split_last()
        {
            let name = parts[0].value.to_lowercase();
            let is_outer = !own.contains(&name) && around.iter().any(|it| it.contains(&name));
            if is_outer && self.columns.contains(&name) {
                self.found.insert(name.clone());
            }
            // The planner would take `r` for the schema of a table `s` in `r.s.field`.
            let is_table = |name: &str| self.scopes.iter().any(|scope| scope.contains(name));
            if parts.len() > 2 && is_table(&name) && is_table(&parts[1].value.to_lowercase()) {
                let fields = parts.split_off(2);
                let fields = fields.into_iter().map(|it| AccessExpr::Dot(Expr::Identifier(it)));
                let (root, access_chain) = (Box::new(expr.clone()), fields.collect());
                *expr = Expr::CompoundFieldAccess { root, access_chain };
            }
        }
        ControlFlow::Continue(())
    }
}

/// Gives these names of tables others, wherever they are meant.
struct TableNames {
    columns: HashSet<String>,
    names: HashSet<String>,
    /// The tables of the queries around, by their names, with the names that they have now.
    scopes: Vec<HashMap<String, String>>,
}

impl TableNames {
    fn new_of(&self, name: &str) -> Option<Ident> {
        let name = name.to_lowercase();
        let new = self.scopes.iter().rev().find_map(|scope| scope.get(&name))?;
        (*new != name).then(|| Ident::with_quote('"', new.clone()))
    }

    fn in_wildcards(&self, select: &mut Select) {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(kind, _) = item
                && let SelectItemQualifiedWildcardKind::ObjectName(name) = kind
                && let [part] = &name.0[..]
                && let Some(new) = part.as_ident().and_then(|it| self.new_of(&it.value))
            {
                *name = vec![new].into();
            }
        }
    }
}

impl VisitorMut for TableNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut scope = HashMap::new();
        each_table(&mut query.body, &mut |table| {
            let Some(name) = name_of(table) else { return };
            let mut new = name.clone();
            if self.names.contains(&name) {
                while self.columns.contains(&new) {
                    new.push('_');
                }
                set_name(table, Ident::with_quote('"', new.clone()));
            }
            scope.insert(name, new);
        });
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.in_wildcards(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(new) = self.new_of(&parts[0].value)
        {
            parts[0] = new;
        }
        ControlFlow::Continue(())
    }
}

/// Calls `each` with the tables of the selections of a query.
fn each_table(body: &mut SetExpr, each: &mut dyn FnMut(&mut TableFactor)) {
    match body {
        SetExpr::Select(select) => {
            for table in &mut select.from {
                each(&mut table.relation);
                table.joins.iter_mut().for_each(|join| each(&mut join.relation));
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            each_table(left, each);
            each_table(right, each);
        }
        _ => {}
    }
}

/// The name of a table in its query, in small letters.
fn name_of(table: &TableFactor) -> Option<String> {
    let name = match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => &alias.name,
        TableFactor::Table { name, args: None, .. } => match &name.0[..] {
            [part] => part.as_ident()?,
            _ => return None,
        },
        _ => return None,
    };
    Some(name.value.to_lowercase())
}

fn set_name(table: &mut TableFactor, name: Ident) {
    if let TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } = table {
        match alias {
            Some(alias) => alias.name = name,
            None => {
                *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
            }
        }
    }
}
