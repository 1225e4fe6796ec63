//! Rejects options that a format does not support.

use euphrates_flow::{Error, Result};

use crate::format::Format;
use crate::options::{Compression, ReadOptions, WriteOptions};

impl ReadOptions {
    /// A usage error if a read option is set that the format does not support.
    pub fn check(&self, format: &dyn Format) -> Result<()> {
        let given = [
            ("delimiter", self.delimiter.is_some()),
            ("header", self.header.is_some()),
            ("types", self.types.is_some()),
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("comment", self.comment.is_some()),
            ("skip_rows", self.skip_rows.is_some()),
            ("null_values", self.null_values.is_some()),
            ("encoding", self.encoding.is_some()),
            ("on_error", self.on_error.is_some()),
        ];
        if self.is_uncompressed && !format.about().compresses_whole {
            let message = format!("{} is compressed inside, if at all", format.about().name);
            return Err(Error::usage(message).remedy("leave out `compression`"));
        }
        check_given(&given, format)
    }
}

impl WriteOptions {
    /// A usage error if a write option is set that the format does not support.
    pub fn check(&self, format: &dyn Format) -> Result<()> {
        let compression = self.compression.is_some_and(|some| some != Compression::None);
        let given = [
            ("compression", compression && !format.about().compresses_whole),
            ("delimiter", self.delimiter.is_some()),
            ("header", self.header.is_some()),
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("null_value", self.null_value.is_some()),
        ];
        check_given(&given, format)?;
        match self.compression {
            Some(Compression::Lz4 | Compression::Snappy | Compression::Brotli)
                if format.about().compresses_whole =>
            {
                let message =
                    format!("{} is compressed as a whole, or not at all", format.about().name);
                Err(Error::usage(message).remedy("use gzip, bzip2, zstd or none"))
            }
            _ => Ok(()),
        }
    }
}

fn check_given(given: &[(&str, bool)], format: &dyn Format) -> Result<()> {
    let stranger = given.iter().find(|(name, is)| *is && !format.about().options.contains(name));
    match stranger {
        None => Ok(()),
        Some((name, _)) => {
            let error = Error::usage(format!("{} has no option `{name}`", format.about().name));
            Err(error.remedy("leave it out"))
        }
    }
}
