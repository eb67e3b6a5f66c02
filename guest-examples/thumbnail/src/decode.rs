//! Reads PNG and JPEG files. Refuses what is broken or absurdly large with a sentence, and looks at
//! the size before it takes memory for the pixels.

use std::io::Cursor;

use zune_core::{colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

use crate::picture::Picture;

/// About what a large camera takes; with four bytes a pixel, 200 MB.
const MAX_PIXELS: u64 = 50_000_000;

const PNG_START: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG_START: &[u8] = b"\xff\xd8\xff";

/// The picture in a file; the error is a sentence for the one who has to repair it.
pub fn picture(file: &[u8]) -> Result<Picture, String> {
    if file.starts_with(PNG_START) {
        png(file)
    } else if file.starts_with(JPEG_START) {
        jpeg(file)
    } else {
        Err(format!("the {} bytes start neither like a PNG nor like a JPEG", file.len()))
    }
}

fn png(file: &[u8]) -> Result<Picture, String> {
    let broken = |error| format!("the PNG is broken: {error}");
    let mut decoder = png::Decoder::new(Cursor::new(file));
    // Palettes and small samples become bytes; 16 bits are cut to 8.
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(broken)?;
    check_size(header.width.into(), header.height.into())?;

    let mut reader = decoder.read_info().map_err(broken)?;
    let size = reader.output_buffer_size().ok_or("the PNG is too large for this machine")?;
    let mut samples = vec![0; size];
    let frame = reader.next_frame(&mut samples).map_err(broken)?;
    samples.truncate(frame.buffer_size());
    Ok(Picture { width: frame.width, height: frame.height, channels: frame.color_type.samples(), samples })
}

fn jpeg(file: &[u8]) -> Result<Picture, String> {
    let broken = |error| format!("the JPEG is broken: {error}");
    let options = DecoderOptions::default().set_strict_mode(true).jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(file), options);
    decoder.decode_headers().map_err(broken)?;
    let (width, height) = decoder.dimensions().ok_or("the JPEG does not say how large it is")?;
    check_size(width as u64, height as u64)?;

    let samples = decoder.decode().map_err(broken)?;
    // A JPEG counts its sides in two bytes.
    Ok(Picture { width: width as u32, height: height as u32, channels: 3, samples })
}

fn check_size(width: u64, height: u64) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("the picture is empty: {width} x {height} pixels"));
    }
    if width * height > MAX_PIXELS {
        return Err(format!("the picture is too large: {width} x {height} pixels, at most {MAX_PIXELS} are read"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::picture;
    use crate::picture::Picture;

    /// 16 by 8 pixels of plain red.
    const RED_JPEG: &[u8] = include_bytes!("../tests/red.jpg");

    fn checkered() -> Picture {
        Picture { width: 2, height: 2, channels: 1, samples: vec![0, 255, 255, 0] }
    }

    #[test]
    fn a_png_comes_back_as_it_was() {
        assert_eq!(picture(&checkered().to_png()), Ok(checkered()));
    }

    #[test]
    fn a_jpeg_is_read_as_red_green_and_blue() {
        let red = picture(RED_JPEG).unwrap();
        assert_eq!((red.width, red.height, red.channels), (16, 8, 3));
        for pixel in red.samples.chunks(3) {
            assert!(pixel[0] > 250 && pixel[1] < 5 && pixel[2] < 5, "{pixel:?}");
        }
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused() {
        let png = checkered().to_png();
        for cut in [9, 20, png.len() / 2, png.len() - 13] {
            let message = picture(&png[..cut]).unwrap_err();
            assert!(message.starts_with("the PNG is broken: "), "{message}");
        }
        let message = picture(&RED_JPEG[..60]).unwrap_err();
        assert!(message.starts_with("the JPEG "), "{message}");
    }

    #[test]
    fn other_files_are_refused() {
        let message = picture(b"GIF89a").unwrap_err();
        assert_eq!(message, "the 6 bytes start neither like a PNG nor like a JPEG");
    }

    #[test]
    fn absurd_dimensions_are_refused_before_the_pixels_are_read() {
        let mut file = checkered().to_png();
        file[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]); // 65536 x 65536
        let checksum = crc32(&file[12..29]);
        file[29..33].copy_from_slice(&checksum.to_be_bytes());
        let message = picture(&file).unwrap_err();
        assert!(message.starts_with("the picture is too large: 65536 x 65536"), "{message}");
    }

    /// The checksum of a PNG chunk, bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
        })
    }
}
