//! Texts in Unicode's normal forms, and without accents.

use arrow::array::ArrayRef;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use super::row_functions::ArgumentKind::Text;
use super::row_functions::{Computed, ResultKind, RowFunction, of_text};

const fn of_one(
    names: &'static [&'static str],
    compute: fn(&[ArrayRef]) -> Computed<ArrayRef>,
) -> RowFunction {
    RowFunction { names, takes: &[Text], optional: 0, returns: ResultKind::Text, compute }
}

pub(super) const FUNCTIONS: [RowFunction; 2] = [
    of_one(&["nfc_normalize"], |args| {
        let composed = ComposingNormalizerBorrowed::new_nfc();
        of_text(args, |text| Ok(Some(composed.normalize(text).into_owned())))
    }),
    of_one(&["strip_accents"], |args| {
        let composed = ComposingNormalizerBorrowed::new_nfc();
        let decomposed = DecomposingNormalizerBorrowed::new_nfd();
        let categories = CodePointMapData::<GeneralCategory>::new();
        let is_mark = |letter: &char| GeneralCategoryGroup::Mark.contains(categories.get(*letter));
        of_text(args, |text| {
            if text.is_ascii() {
                return Ok(Some(text.into()));
            }
            let bare: String =
                decomposed.normalize(text).chars().filter(|letter| !is_mark(letter)).collect();
            Ok(Some(composed.normalize(&bare).into_owned()))
        })
    }),
];
