//! How much an image may be before it counts as an attack.

/// Caps on what is imported, pulled and unpacked. More than that is an error that names the cap.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a manifest, an index or a configuration.
    pub metadata_bytes: u64,
    /// Layers of one image.
    pub layers: usize,
    /// Bytes of one layer as it is stored or sent.
    pub layer_bytes: u64,
    /// Bytes of all files that the layers of one image write, and of all tar headers around them.
    pub unpacked_bytes: u64,
    /// Bytes that one compressed byte may become, once a layer has more than [`Limits::ratio_from`].
    pub ratio: u64,
    /// The size from which the ratio counts: small files of zeros are common and harmless.
    pub ratio_from: u64,
    /// Entries of all layers of one image.
    pub entries: u64,
    /// Bytes of one path, and of one link's target.
    pub path_bytes: usize,
    /// Directories inside each other.
    pub depth: u32,
    /// Bytes of the whole store. Beyond it, what nothing names or uses is removed when an image is added.
    pub store_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        Self {
            metadata_bytes: 4 * MIB,
            layers: 512,
            layer_bytes: 8 * GIB,
            unpacked_bytes: 16 * GIB,
            ratio: 250,
            ratio_from: 64 * MIB,
            entries: 1_000_000,
            path_bytes: 4095,
            depth: 200,
            store_bytes: 32 * GIB,
        }
    }
}
