//! What writers of striped files write again for want of memory.

use euphrates_device::disk::{NamedDisk, save_named_disks};
use euphrates_store::striped::{StripedOptions, StripedReader, StripedWriter};

#[test]
fn writers_of_interleaved_pieces_write_each_stripe_once_also_if_one_is_far_ahead() {
    const PIECE: usize = 100;
    let home = tempfile::tempdir().unwrap();
    let disk = |at| NamedDisk {
        name: format!("d{at}"),
        folder: format!("d{at}").into(),
        mode: Default::default(),
        rate: None,
        worker: "local".into(),
    };
    save_named_disks(home.path(), &(0..4).map(disk).collect::<Vec<_>>()).unwrap();
    // Stripes of 30 pieces, of which nine writers fill a ninth each; memory for half of the file.
    let options = StripedOptions { data: 3, block_bytes: 10 * PIECE, ..StripedOptions::default() };
    let (stripes, writers) = (90, 9);
    let pieces = 30 * stripes;
    let mut writer = StripedWriter::create(home.path(), "f", options).unwrap();
    writer.set_memory(pieces * PIECE / 2);
    let mut put = |number: usize, third: usize| {
        for at in (third * pieces / 3..(third + 1) * pieces / 3).filter(|at| at % writers == number)
        {
            writer.write_at((at * PIECE) as u64, &[number as u8 + 1; PIECE]).unwrap();
        }
    };
    put(0, 0);
    put(0, 1);
    put(0, 2);
    for third in 0..3 {
        (1..writers).for_each(|number| put(number, third));
    }
    writer.commit().unwrap();
    let reader = StripedReader::open(home.path(), "f").unwrap();
    let mut read = vec![0; reader.bytes() as usize];
    reader.read_at(0, &mut read).unwrap();
    let expected: Vec<u8> = (0..pieces).flat_map(|at| [(at % writers) as u8 + 1; PIECE]).collect();
    assert!(read == expected);
    let segments = &reader.manifest().segments;
    // The first one is the map.
    let stored: u64 = segments[1..].iter().map(|segment| segment.bytes).sum();
    // Blocks begin at multiples of a page.
    assert!(stored <= (stripes * 4 * 4096) as u64, "{stored}");
}
