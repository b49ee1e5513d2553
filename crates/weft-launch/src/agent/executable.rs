//! Describes a file that the system will not execute: a program for another processor or system, a truncated
//! program, or text for a shell. `agent/rank.rs` asks when a program does not start.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes that are looked at to tell text from other files.
const HEAD_LENGTH: usize = 512;
/// The most entries of a program header table that are trusted.
const SEGMENTS_MAX: u16 = 256;

/// Half a sentence about a file that the system refused to execute because of its contents. `None`: it may be
/// text for a shell.
pub(crate) fn refused(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(file).ok()?.take(HEAD_LENGTH as u64).read_to_end(&mut head).ok()?;
    let file_name = file.display();
    if head.is_empty() {
        return Some(format!("{file_name} is empty"));
    }
    if let Some(cut) = truncated(file) {
        return Some(cut);
    }
    let kind = match &head[..] {
        [0x7f, b'E', b'L', b'F', ..] => elf(&head),
        [b'M', b'Z', ..] => "a program for Windows".to_owned(),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "a program for macOS".to_owned(),
        _ if head.contains(&0) => "neither a program for this machine nor a script".to_owned(),
        _ => return None,
    };
    Some(format!("{file_name} is {kind}"))
}

/// Half a sentence about a program that is shorter than its own header says. The system would start and kill
/// it.
pub(crate) fn truncated(file: &Path) -> Option<String> {
    let opened = File::open(file).ok()?;
    let length = opened.metadata().ok()?.len();
    let mut magic = [0; 4];
    opened.read_exact_at(&mut magic, 0).ok()?;
    if magic != *b"\x7fELF" {
        return None;
    }
    let cut = |needed: u64| Some(format!("{} is cut off: it has {length} bytes of {needed} or more", file.display()));
    let mut header = [0; 64];
    if opened.read_exact_at(&mut header, 0).is_err() {
        return cut(header.len() as u64);
    }
    // The layout is that of 64-bit programs with this machine's byte order (System V gABI, chapter 4 and 5);
    // others fail elsewhere.
    if header[4] != 2 || header[5] != if cfg!(target_endian = "little") { 1 } else { 2 } {
        return None;
    }
    let half = |bytes: &[u8], at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let word = |bytes: &[u8], at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    let (table, size, count) = (word(&header, 32), half(&header, 54), half(&header, 56));
    let mut needed = table.checked_add(u64::from(size) * u64::from(count))?;
    let mut entry = [0; 56];
    for index in 0..count.min(SEGMENTS_MAX) {
        let at = table.checked_add(u64::from(index) * u64::from(size))?;
        if opened.read_exact_at(&mut entry, at).is_err() {
            return cut(needed);
        }
        // PT_LOAD: a segment that is mapped.
        if entry[..4] == 1u32.to_ne_bytes() {
            needed = needed.max(word(&entry, 8).checked_add(word(&entry, 32))?);
        }
    }
    if needed > length { cut(needed) } else { None }
}

/// The processor that a program is for, by `e_machine` of the header.
fn elf(head: &[u8]) -> String {
    let Some(&[low, high]) = head.get(18..20) else { return "a program that is cut off".to_owned() };
    let machine =
        if head.get(5) == Some(&2) { u16::from_be_bytes([low, high]) } else { u16::from_le_bytes([low, high]) };
    let name = match machine {
        3 => "x86 (32 bits)",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "PowerPC (64 bits)",
        22 => "S/390",
        40 => "ARM (32 bits)",
        62 => "x86-64",
        183 => "AArch64",
        243 => "RISC-V",
        258 => "LoongArch",
        other => {
            return format!(
                "a program for another kind of processor (ELF machine {other}), this one is {}",
                std::env::consts::ARCH
            );
        }
    };
    // An object file has the right processor, but is no program.
    match head.get(16..18) {
        Some([1, 0] | [0, 1]) => format!("an object file for {name}, not a program: link it"),
        _ => format!("a program for {name}, and this machine has {}", std::env::consts::ARCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test's own file, which is gone when dropped.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("weft-executable-{name}-{}", std::process::id()));
            std::fs::write(&path, bytes).expect("a temporary file");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_cannot_be_executed_is_named() {
        let mut arm = std::fs::read("/proc/self/exe").expect("this program");
        arm[18..20].copy_from_slice(&183u16.to_ne_bytes());
        let mut object = arm.clone();
        object[16..18].copy_from_slice(&1u16.to_ne_bytes());
        for (name, bytes, words) in [
            ("arm", &arm[..], "is a program for AArch64, and this machine has"),
            ("object", &object[..], "is an object file"),
            ("empty", b"", "is empty"),
            ("windows", b"MZ\x90\0", "for Windows"),
            ("noise", b"\x01\0\x02", "neither a program for this machine nor a script"),
        ] {
            let file = Scratch::new(name, bytes);
            let said = refused(&file.0).unwrap_or_default();
            assert!(said.contains(words), "{name}: {said}");
        }
        assert_eq!(refused(&Scratch::new("script", b"echo hello\n").0), None);
    }

    #[test]
    fn a_program_that_is_cut_off_anywhere_is_seen() {
        let whole = std::fs::read("/proc/self/exe").expect("this program");
        assert_eq!(truncated(Path::new("/proc/self/exe")), None);
        for length in [20, 64, 100, 16384] {
            let file = Scratch::new(&format!("cut-{length}"), &whole[..length]);
            let said = truncated(&file.0).unwrap_or_default();
            assert!(said.contains("is cut off") && said.contains(&format!("{length} bytes")), "{length}: {said}");
        }
    }
}
