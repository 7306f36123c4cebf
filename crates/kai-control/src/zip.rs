//! The simplest ZIP archive: files one after the other, not compressed.

/// An archive of these files.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let offset = bytes.len() as u32;
        let facts = facts(name, content);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&facts);
        bytes.extend(name.as_bytes());
        bytes.extend(*content);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&facts);
        directory.extend([0; 10]); // no comment, first disk, no attributes
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (bytes.len() as u32, files.len() as u16);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// What both the file's own header and the directory say of it.
fn facts(name: &str, content: &[u8]) -> Vec<u8> {
    let mut facts = Vec::new();
    facts.extend([20, 0, 0, 8, 0, 0]); // version 2.0, names in UTF-8, not compressed
    facts.extend([0, 0, 0x21, 0]); // 1980-01-01, the earliest there is
    facts.extend(crc32(content).to_le_bytes());
    facts.extend((content.len() as u32).to_le_bytes());
    facts.extend((content.len() as u32).to_le_bytes());
    facts.extend((name.len() as u16).to_le_bytes());
    facts.extend([0; 2]);
    facts
}

/// The checksum of ZIP files.
fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8)
                .fold(byte, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
        })
        .collect();
    let crc = bytes
        .iter()
        .fold(u32::MAX, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8));
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn an_archive_has_a_directory_that_points_at_its_files() {
        let archive = archive(&[("a.json", b"{}")]);
        let directory = archive.windows(4).position(|at| at == b"PK\x01\x02").expect("a directory");
        let end = archive.windows(4).position(|at| at == b"PK\x05\x06").expect("an end");
        let start = u32::from_le_bytes(archive[end + 16..end + 20].try_into().expect("four bytes"));
        assert_eq!(start as usize, directory);
        assert_eq!(&archive[directory + 46..directory + 52], b"a.json");
        assert_eq!(&archive[30 + 6..30 + 8], b"{}");
    }
}
