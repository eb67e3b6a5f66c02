//! A picture in memory: shrinks it by averaging areas, writes it as a PNG.

/// Rows of pixels from the top, each of one byte a channel.
#[derive(Debug, PartialEq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    /// 1 grey, 2 grey and opacity, 3 red, green and blue, 4 these and opacity.
    pub channels: usize,
    pub samples: Vec<u8>,
}

impl Picture {
    /// The same picture with its longer side at most `max_side`; it is never enlarged.
    pub fn shrunk_to(self, max_side: u32) -> Self {
        let longer = self.width.max(self.height);
        if longer <= max_side {
            return self;
        }
        let scaled = |side: u32| {
            let exact = u64::from(side) * u64::from(max_side);
            (exact.div_ceil(u64::from(longer)) as u32).max(1)
        };
        let (width, height) = (scaled(self.width), scaled(self.height));
        let mut samples = Vec::with_capacity(width as usize * height as usize * self.channels);
        for y in 0..height {
            let rows = source_range(y, height, self.height);
            for x in 0..width {
                let columns = source_range(x, width, self.width);
                self.push_average(rows.clone(), columns, &mut samples);
            }
        }
        Self { width, height, channels: self.channels, samples }
    }

    /// Appends the average pixel of an area. Colours are weighted with their opacity, so that what
    /// cannot be seen does not shine through at edges.
    fn push_average(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, to: &mut Vec<u8>) {
        let pixels = (rows.len() * columns.len()) as u64;
        let has_opacity = self.channels.is_multiple_of(2);
        let colours = self.channels - usize::from(has_opacity);
        let mut sums = [0_u64; 3];
        let mut weight = 0;
        for y in rows {
            let row = y * self.width as usize;
            let area = (row + columns.start) * self.channels..(row + columns.end) * self.channels;
            for pixel in self.samples[area].chunks_exact(self.channels) {
                let opacity = if has_opacity { u64::from(pixel[colours]) } else { 255 };
                weight += opacity;
                for (sum, sample) in sums.iter_mut().zip(&pixel[..colours]) {
                    *sum += u64::from(*sample) * opacity;
                }
            }
        }
        let rounded = |sum: u64, by: u64| ((sum + by / 2) / by.max(1)) as u8;
        to.extend(sums[..colours].iter().map(|sum| rounded(*sum, weight)));
        if has_opacity {
            to.push(rounded(weight, pixels));
        }
    }

    /// The picture as a PNG file.
    pub fn to_png(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_color(match self.channels {
            1 => png::ColorType::Grayscale,
            2 => png::ColorType::GrayscaleAlpha,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        });
        encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&self.samples))
            .expect("memory takes every byte, and the samples fill the picture");
        file
    }
}

/// The pixels of the source that one pixel of the result stands for: at least one.
fn source_range(index: u32, of: u32, source: u32) -> std::ops::Range<usize> {
    let start = |index: u32| (u64::from(index) * u64::from(source) / u64::from(of)) as usize;
    start(index)..start(index + 1).max(start(index) + 1)
}

#[cfg(test)]
mod tests {
    use super::Picture;

    #[test]
    fn areas_are_averaged() {
        let picture = Picture { width: 4, height: 2, channels: 1, samples: vec![0, 10, 100, 100, 20, 30, 100, 104] };
        let small = picture.shrunk_to(2);
        assert_eq!((small.width, small.height), (2, 1));
        assert_eq!(small.samples, [15, 101]);
    }

    #[test]
    fn what_cannot_be_seen_does_not_shine_through() {
        let samples = vec![255, 0, 0, 255, 0, 255, 0, 0];
        let small = Picture { width: 2, height: 1, channels: 4, samples }.shrunk_to(1);
        assert_eq!(small.samples, [255, 0, 0, 128]);
    }

    #[test]
    fn a_picture_that_cannot_be_seen_at_all_stays_so() {
        let small = Picture { width: 2, height: 1, channels: 2, samples: vec![9, 0, 9, 0] };
        assert_eq!(small.shrunk_to(1).samples, [0, 0]);
    }

    #[test]
    fn a_small_picture_keeps_its_size() {
        let picture = || Picture { width: 3, height: 1, channels: 1, samples: vec![1, 2, 3] };
        assert_eq!(picture().shrunk_to(3), picture());
    }

    #[test]
    fn a_thin_line_keeps_at_least_one_pixel_of_width() {
        let small = Picture { width: 1000, height: 1, channels: 1, samples: vec![7; 1000] };
        let small = small.shrunk_to(10);
        assert_eq!((small.width, small.height, small.samples), (10, 1, vec![7; 10]));
    }
}
