//! `||` behind arithmetic: `'a' || n + 1` is `'a' || (n + 1)`, as in DuckDB and PostgreSQL. The
//! parser ranks `||` with products, which makes it `('a' || n) + 1`.

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr};

/// An operand, and the operators and operands that follow it.
struct Chain {
    first: Expr,
    rest: Vec<(BinaryOperator, Expr)>,
}

/// Groups the operands of `||` and of operators that rank above it anew.
pub(super) fn regroup(expr: &mut Expr) {
    if rank(expr).is_none() || !has_concatenation(expr) {
        return;
    }
    let Chain { first, rest } = Chain::of(expr.clone());
    let mut parts = vec![Chain { first, rest: vec![] }];
    for (operator, operand) in rest {
        match (operator, parts.last_mut()) {
            (BinaryOperator::StringConcat, _) | (_, None) => {
                parts.push(Chain { first: operand, rest: vec![] });
            }
            (operator, Some(part)) => part.rest.push((operator, operand)),
        }
    }
    let parts = parts.into_iter().map(|part| match part.rest.is_empty() {
        true => part.first,
        // Written out, the expression is parsed again.
        false => Expr::Nested(Box::new(part.grouped())),
    });
    let all = parts.reduce(|left, right| of(left, BinaryOperator::StringConcat, right));
    *expr = all.expect("a chain has an operand");
}

fn of(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// How tightly the operator of an expression binds; `None` if it is none of these.
fn rank(expr: &Expr) -> Option<u8> {
    let Expr::BinaryOp { op, .. } = expr else { return None };
    rank_of(op)
}

fn rank_of(op: &BinaryOperator) -> Option<u8> {
    use BinaryOperator::*;
    Some(match op {
        StringConcat => 0,
        BitwiseOr => 1,
        BitwiseAnd => 2,
        Plus | Minus => 3,
        Multiply | Divide | Modulo | DuckIntegerDivide => 4,
        _ => return None,
    })
}

/// Whether `||` is among the operators that no parentheses enclose, beside others.
fn has_concatenation(expr: &Expr) -> bool {
    let (mut concatenates, mut computes) = (false, false);
    let mut left_to_see = vec![expr];
    while let Some(expr) = left_to_see.pop() {
        if let (Expr::BinaryOp { left, right, .. }, Some(rank)) = (expr, rank(expr)) {
            concatenates |= rank == 0;
            computes |= rank > 0;
            left_to_see.extend([&**left, &**right]);
        }
    }
    concatenates && computes
}

impl Chain {
    /// The operands in the order of the text.
    fn of(expr: Expr) -> Chain {
        if rank(&expr).is_none() {
            return Chain { first: expr, rest: vec![] };
        }
        let Expr::BinaryOp { left, op, right } = expr else { unreachable!("it has a rank") };
        let (mut left, right) = (Chain::of(*left), Chain::of(*right));
        left.rest.push((op, right.first));
        left.rest.extend(right.rest);
        left
    }

    /// The expression, in which tighter operators come first, and equal ones from the left.
    fn grouped(self) -> Expr {
        let mut operands = vec![self.first];
        let mut operators: Vec<BinaryOperator> = vec![];
        for (operator, operand) in self.rest {
            while operators.last().is_some_and(|last| rank_of(last) >= rank_of(&operator)) {
                join_last(&mut operands, &mut operators);
            }
            operators.push(operator);
            operands.push(operand);
        }
        while !operators.is_empty() {
            join_last(&mut operands, &mut operators);
        }
        operands.pop().expect("one is left")
    }
}

fn join_last(operands: &mut Vec<Expr>, operators: &mut Vec<BinaryOperator>) {
    let (right, left) = (operands.pop(), operands.pop());
    if let (Some(left), Some(op), Some(right)) = (left, operators.pop(), right) {
        operands.push(of(left, op, right));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relations::parsed_expression;

    #[test]
    fn arithmetic_binds_tighter_than_concatenation() {
        for (written, grouped) in [
            ("a || b + c", "a || (b + c)"),
            ("a || b * c", "a || (b * c)"),
            ("a + b || c", "(a + b) || c"),
            ("a || b - c || d % e", "a || (b - c) || (d % e)"),
            ("a * b + c - d || e", "(a * b + c - d) || e"),
            ("a - b * c - d || e // f", "(a - b * c - d) || (e // f)"),
            ("a || (b || c) + d", "a || ((b || c) + d)"),
            ("a || b & c", "a || (b & c)"),
            ("a || b", "a || b"),
            ("a + b * c", "a + b * c"),
            ("-a || b", "-a || b"),
        ] {
            let mut expr = parsed_expression(written).unwrap();
            regroup(&mut expr);
            assert_eq!(expr.to_string(), grouped, "{written}");
            let mut again = parsed_expression(grouped).unwrap();
            regroup(&mut again);
            assert_eq!(again.to_string(), grouped, "{grouped} is grouped already");
        }
    }
}
