//! Statements of other engines that make tables, as queries of ours: `create table` with types,
//! `insert`, `create view`, `drop`.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use euphrates_flow::{Error, Result};
use sqlparser::ast::{ColumnDef, ObjectName, ObjectType, Statement, TableObject};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

/// A statement that is not in our SQL.
pub enum Definition {
    /// `create table t (a int)`; the query has its columns, and no rows.
    EmptyTable { name: String, query: String },
    /// `create view v as …`.
    View { name: String, query: String },
    /// `insert into t …`.
    Insert(Insert),
    /// `drop table t` or `drop view v`.
    Drop { names: Vec<String>, if_exists: bool },
}

/// Rows for a table that exists.
pub struct Insert {
    /// The table's name.
    pub table: String,
    columns: Vec<String>,
    rows: String,
}

impl Definition {
    /// The definition that a text is; none if it is another statement, or none at all.
    pub fn of(text: &str) -> Option<Definition> {
        let statements = Parser::parse_sql(&GenericDialect {}, text).ok()?;
        let [statement] = <[Statement; 1]>::try_from(statements).ok()?;
        match statement {
            Statement::CreateTable(table) if table.query.is_none() => {
                let query = empty_query(&table.columns);
                Some(Definition::EmptyTable { name: name_of(&table.name), query })
            }
            Statement::CreateView(view) => {
                let query = view.query.to_string();
                Some(Definition::View { name: name_of(&view.name), query })
            }
            Statement::Insert(insert) => {
                let TableObject::TableName(name) = &insert.table else { return None };
                Some(Definition::Insert(Insert {
                    table: name_of(name),
                    columns: insert.columns.iter().map(name_of).collect(),
                    rows: insert.source?.to_string(),
                }))
            }
            Statement::Drop {
                object_type: ObjectType::Table | ObjectType::View,
                if_exists,
                names,
                ..
            } => Some(Definition::Drop { names: names.iter().map(name_of).collect(), if_exists }),
            _ => None,
        }
    }
}

fn name_of(name: &ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    parts.map(|part| part.value.clone()).collect::<Vec<_>>().join("/")
}

fn empty_query(columns: &[ColumnDef]) -> String {
    let columns = columns
        .iter()
        .map(|column| format!("cast(null as {}) as \"{}\"", column.data_type, column.name.value));
    format!("select {} where false", columns.collect::<Vec<_>>().join(", "))
}

impl Insert {
    /// The rows of the table before and after, with the table's types.
    pub fn query(&self, schema: &Schema) -> Result<String> {
        let given: Vec<&str> = match self.columns.is_empty() {
            true => schema.fields().iter().map(|field| field.name().as_str()).collect(),
            false => self.columns.iter().map(String::as_str).collect(),
        };
        let value = |field: &arrow::datatypes::FieldRef| {
            let (name, of_type) = (field.name(), sql_type(field.data_type())?);
            let place = given.iter().position(|one| one.eq_ignore_ascii_case(name));
            let value = place.map_or("null".to_string(), |place| format!("new.c{place}"));
            Ok(format!("cast({value} as {of_type}) as \"{name}\""))
        };
        let values = schema.fields().iter().map(value).collect::<Result<Vec<_>>>()?.join(", ");
        let names = (0..given.len()).map(|place| format!("c{place}"));
        let names = names.collect::<Vec<_>>().join(", ");
        let Insert { table, rows, .. } = self;
        Ok(format!(
            "select * from \"{table}\" union all select {values} from ({rows}) as new ({names})"
        ))
    }
}

/// The name of a column's type in `cast`.
fn sql_type(of: &DataType) -> Result<String> {
    let name = match of {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "int",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "int unsigned",
        DataType::UInt64 => "bigint unsigned",
        DataType::Float32 => "real",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "varchar",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time",
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None) => "timestamp",
        DataType::Decimal128(precision, scale) => {
            return Ok(format!("decimal({precision}, {scale})"));
        }
        other => return Err(Error::usage(format!("rows of {other} cannot be inserted"))),
    };
    Ok(name.into())
}
