//! Numbers and strings as bytes, little-endian; strings and lists have their length before them.

/// Bytes that grow.
#[derive(Debug, Default)]
pub struct BytesOut(pub Vec<u8>);

/// Bytes that are read; each method returns `None` behind their end.
#[derive(Debug)]
pub struct BytesIn<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BytesOut {
    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    pub fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn i64(&mut self, number: i64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend(bytes);
    }

    /// A number that may be missing.
    pub fn optional(&mut self, number: Option<i64>) {
        self.u8(u8::from(number.is_some()));
        if let Some(number) = number {
            self.i64(number);
        }
    }
}

impl<'a> BytesIn<'a> {
    pub fn new(bytes: &'a [u8]) -> BytesIn<'a> {
        BytesIn { bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    pub fn optional(&mut self) -> Option<Option<i64>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(self.i64()?)),
            _ => None,
        }
    }
}
