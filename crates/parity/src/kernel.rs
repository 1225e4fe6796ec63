//! Kernels: loops that compute linear combinations of blocks, one for each set of instructions.

use crate::combination::{Combination, OUTPUTS_MAX};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod portable;

/// A loop over blocks, chosen by the instructions that the processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// GFNI on vectors of AVX-512: a multiplication is one instruction.
    Gfni,
    /// AVX2: a multiplication is two table look-ups by half bytes.
    Avx2,
    /// Any processor: a multiplication is a sum of doubled bytes.
    Portable,
}

impl Kernel {
    /// All kernels, fastest first.
    pub const ALL: [Kernel; 3] = [Kernel::Gfni, Kernel::Avx2, Kernel::Portable];

    /// The fastest kernel that this processor can run.
    ///
    /// ```
    /// assert!(euphrates_parity::Kernel::fastest().is_supported());
    /// ```
    pub fn fastest() -> Kernel {
        Kernel::ALL.into_iter().find(|kernel| kernel.is_supported()).unwrap_or(Kernel::Portable)
    }

    /// Whether this processor has the kernel's instructions.
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Gfni => {
                is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Gfni | Kernel::Avx2 => false,
            Kernel::Portable => true,
        }
    }

    /// Overwrites the outputs with the combination of the inputs. All blocks have one length.
    pub(crate) fn run(self, sums: &Combination, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert_eq!((inputs.len(), outputs.len()), (sums.inputs, sums.outputs));
        let Some(length) = outputs.first().map(|output| output.len()) else { return };
        let lengths = inputs.iter().map(|input| input.len());
        let lengths = lengths.chain(outputs.iter().map(|output| output.len()));
        assert!(lengths.into_iter().all(|each| each == length), "blocks of different lengths");
        assert!(self.is_supported(), "{self:?} cannot run here");
        for (group, outputs) in outputs.chunks_mut(OUTPUTS_MAX).enumerate() {
            let first = group * OUTPUTS_MAX;
            let done = match self {
                // SAFETY: the processor has the instructions, and all blocks have one length.
                #[cfg(target_arch = "x86_64")]
                Kernel::Gfni => unsafe { gfni::run(sums, first, inputs, outputs) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => unsafe { avx2::run(sums, first, inputs, outputs) },
                _ => 0,
            };
            portable::run(sums, first, inputs, outputs, done);
        }
    }
}
