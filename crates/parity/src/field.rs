//! Arithmetic of the field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1.

/// The polynomial without its highest term.
pub const POLYNOMIAL: u8 = 0x1d;

/// Powers of the generator 2, twice, so that a sum of two logarithms is an index.
const POWERS: [u8; 510] = powers();
/// The logarithm of each element; that of 0 is unused.
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let (mut table, mut at, mut power) = ([0; 510], 0, 1);
    while at < 255 {
        table[at] = power;
        table[at + 255] = power;
        power = double(power);
        at += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let (mut table, mut at) = ([0; 256], 0);
    while at < 255 {
        table[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    table
}

/// The product of an element and 2.
pub const fn double(x: u8) -> u8 {
    (x << 1) ^ (if x & 0x80 != 0 { POLYNOMIAL } else { 0 })
}

/// The product of two elements.
pub fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[usize::from(LOGARITHMS[usize::from(a)]) + usize::from(LOGARITHMS[usize::from(b)])]
}

/// The inverse of an element other than 0.
pub fn inverse(a: u8) -> u8 {
    debug_assert!(a != 0, "0 has no inverse");
    POWERS[255 - usize::from(LOGARITHMS[usize::from(a)])]
}

/// An element to the power of `n`; 0 to the power of 0 is 1.
pub fn power(a: u8, n: usize) -> u8 {
    (0..n).fold(1, |product_so_far, _| product(product_so_far, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication bit by bit, from the definition.
    fn by_bits(mut a: u8, b: u8) -> u8 {
        let mut sum = 0;
        for bit in 0..8 {
            sum ^= if b >> bit & 1 == 1 { a } else { 0 };
            a = double(a);
        }
        sum
    }

    #[test]
    fn products_and_inverses_follow_from_the_definition() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), by_bits(a, b), "{a} x {b}");
            }
            assert!(a == 0 || product(a, inverse(a)) == 1, "{a}");
        }
        assert_eq!([power(0, 0), power(0, 3), power(3, 2)], [1, 0, 5]);
    }
}
