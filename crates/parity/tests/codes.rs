//! Codes against another implementation, and against every loss that they must survive.

use euphrates_parity::{CodeError, ErasureCode, Kernel};
use proptest::prelude::*;
use reed_solomon_erasure::galois_8::ReedSolomon;

/// Bytes that follow from a seed (SplitMix64).
fn bytes(mut seed: u64, length: usize) -> Vec<u8> {
    let byte = |_| {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z >> 40) as u8
    };
    (0..length).map(byte).collect()
}

/// All blocks of a stripe of random data.
fn stripe(code: &ErasureCode, seed: u64, length: usize) -> Vec<Vec<u8>> {
    let mut blocks: Vec<_> =
        (0..code.data()).map(|at| bytes(seed ^ (at as u64) << 32, length)).collect();
    let mut parity = vec![vec![0xee; length]; code.parity()];
    let data: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut outputs).unwrap();
    blocks.extend(parity);
    blocks
}

/// Recovers the blocks of a set from the others, and compares.
fn lose(code: &ErasureCode, blocks: &[Vec<u8>], lost: &[usize]) {
    let whole = blocks.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    let left: Vec<(usize, &[u8])> = whole.map(|(at, block)| (at, block.as_slice())).collect();
    let mut found = vec![vec![0xee; blocks[0].len()]; lost.len()];
    let outputs = lost.iter().copied().zip(found.iter_mut().map(Vec::as_mut_slice));
    code.recover(&left, &mut outputs.collect::<Vec<_>>()).unwrap();
    for (&at, found) in lost.iter().zip(&found) {
        assert!(*found == blocks[at], "block {at} of {} after losing {lost:?}", blocks.len());
    }
}

fn kernels() -> impl Iterator<Item = Kernel> {
    Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported())
}

/// Shapes with at most 256 blocks, small ones preferred.
fn shapes() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        4 => (1usize..=12, 0usize..=6),
        1 => (1usize..=200).prop_flat_map(|data| (Just(data), 0..=(256 - data).min(60))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn parity_equals_that_of_another_implementation(
        (data, parity) in shapes(), length in 1usize..700, seed: u64,
    ) {
        let code = ErasureCode::new(data, parity).unwrap();
        for kernel in kernels() {
            let blocks = stripe(&code.clone().with_kernel(kernel), seed, length);
            if parity > 0 {
                let mut theirs = blocks[..data].to_vec();
                theirs.resize(data + parity, vec![0; length]);
                ReedSolomon::new(data, parity).unwrap().encode(&mut theirs).unwrap();
                prop_assert!(theirs == blocks, "{kernel:?}");
            }
        }
    }

    #[test]
    fn any_losses_up_to_the_parity_are_recovered(
        (data, parity) in shapes(), length in 0usize..400, seed: u64, order: u64,
    ) {
        let code = ErasureCode::new(data, parity).unwrap();
        for kernel in kernels() {
            let code = code.clone().with_kernel(kernel);
            let blocks = stripe(&code, seed, length);
            let keys = bytes(order, data + parity);
            let mut numbers: Vec<usize> = (0..data + parity).collect();
            numbers.sort_by_key(|&at| keys[at]);
            lose(&code, &blocks, &numbers[..parity]);
        }
    }
}

#[test]
fn every_set_of_losses_of_common_shapes_is_recovered() {
    for (data, parity) in [(1, 2), (4, 1), (4, 2), (8, 2), (8, 3), (5, 5)] {
        let code = ErasureCode::new(data, parity).unwrap();
        let blocks = stripe(&code, 7, 200);
        for set in 0u32..1 << (data + parity) {
            if set.count_ones() as usize <= parity {
                let lost: Vec<usize> = (0..data + parity).filter(|at| set >> at & 1 == 1).collect();
                lose(&code, &blocks, &lost);
            }
        }
    }
}

#[test]
fn wrong_blocks_are_refused() {
    let shape = |data, parity| ErasureCode::new(data, parity).err();
    assert_eq!(shape(0, 1), Some(CodeError::Shape { data: 0, parity: 1 }));
    assert_eq!(shape(200, 57), Some(CodeError::Shape { data: 200, parity: 57 }));
    assert!(shape(usize::MAX, 1).is_some() && shape(256, 0).is_none());
    let code = ErasureCode::new(2, 1).unwrap();
    let (a, b, mut parity) = ([1; 9], [2; 9], [0; 9]);
    let count = CodeError::Count { expected: 2, given: 1 };
    assert_eq!(code.encode(&[&a], &mut [&mut parity]), Err(count));
    assert_eq!(code.encode(&[&a, &b[..8]], &mut [&mut parity]), Err(CodeError::Length));
    let too_few = CodeError::TooFew { needed: 2, given: 1 };
    assert_eq!(code.recover(&[(0, &a)], &mut [(1, &mut parity)]), Err(too_few));
    for left in [[(0, &a[..]), (3, &b)], [(0, &a), (0, &b)], [(1, &a), (0, &b)]] {
        let wrong = code.recover(&left, &mut [(1, &mut parity)]);
        assert!(matches!(wrong, Err(CodeError::Number(_))), "{left:?}");
    }
    assert_eq!(parity, [0; 9], "nothing was written");
}
