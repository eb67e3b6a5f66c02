//! Where a directory really is: on this machine, behind a program, or behind a network.
//!
//! Locks and appends keep what they promise on local disks. On network file systems a lock may be held
//! by two machines, a file may be cached by one of them, and a name may lead elsewhere after a break.
//!
//! Invariant: the decision is a function of the number that statfs(2) gives, so that it can be tested
//! for file systems that are not here.

/// Where a file system keeps its files. The worse, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Locality {
    /// On this machine, as far as is known.
    #[default]
    Local,
    /// Wherever a program of a user keeps them (FUSE): it may be a local disk or the other side of the world.
    Userspace,
    /// On another machine, or on the host of this one; says through which file system.
    Network(&'static str),
}

/// The numbers of network file systems, from `linux/magic.h` and, where they are not part of the kernel,
/// from their own sources.
const NETWORK: [(u32, &str); 17] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "SMB (CIFS)"),
    (0xfe53_4d42, "SMB 2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0000_564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0xbacb_acbc, "a VMware shared folder"),
];

const FUSE: u32 = 0x6573_5546;

impl Locality {
    /// What the type of a file system, as statfs(2) gives it, means.
    #[must_use]
    pub fn of_type(number: u32) -> Self {
        if number == FUSE {
            return Self::Userspace;
        }
        let found = NETWORK.iter().find(|(known, _)| *known == number);
        found.map_or(Self::Local, |(_, name)| Self::Network(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_local() {
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs
        for number in
            [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xf2f5_2010, 0, u32::MAX]
        {
            assert_eq!(Locality::of_type(number), Locality::Local, "{number:x}");
        }
    }

    #[test]
    fn network_file_systems_are_known_by_name() {
        for (number, name) in [
            (0x6969, "NFS"),
            (0x517b, "SMB"),
            (0xfe53_4d42, "SMB 2"),
            (0xff53_4d42, "SMB (CIFS)"),
            (0x0102_1997, "9p"),
            (0x5346_414f, "AFS"),
            (0x00c3_6400, "Ceph"),
        ] {
            assert_eq!(Locality::of_type(number), Locality::Network(name), "{number:x}");
        }
    }

    #[test]
    fn fuse_is_worse_than_local_and_better_than_a_network() {
        assert_eq!(Locality::of_type(FUSE), Locality::Userspace);
        assert!(Locality::Local < Locality::Userspace && Locality::Userspace < Locality::Network("NFS"));
    }
}
