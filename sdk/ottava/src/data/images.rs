//! A folder of images into one array, by the recipe's `preprocess` block: crop, resize, colour order, layout. The block's
//! scale and offset are the affine map of the data.

use crate::error::{Error, Result, codes};
use image::{DynamicImage, ImageReader, Limits, imageops::FilterType};
use ottava_hal::Tensor;
use ottava_quantize::recipe::{Color, ImageLayout, Preprocess};
use std::path::{Path, PathBuf};

/// Width and height of the largest image that is decoded.
const MAX_SIDE: u32 = 1 << 14;

/// Files of a folder that are images, sorted by name.
fn image_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let reading = |e: std::io::Error| Error::reading(codes::DATA_FILE, folder, &e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(reading)? {
        let path = entry.map_err(reading)?.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
        if ["jpg", "jpeg", "png", "bmp"].contains(&extension.as_str()) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::invalid(codes::DATA_IMAGE, "the folder holds no images")
            .in_file(folder)
            .expected("files that end in .jpg, .png or .bmp"));
    }
    Ok(files)
}

fn decode(path: &Path) -> Result<DynamicImage> {
    let bad = |e: &dyn std::fmt::Display| {
        Error::invalid(codes::DATA_IMAGE, format!("cannot decode the image: {e}")).in_file(path)
    };
    // Reading a pipe or a device might never end.
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(bad(&"not a regular file; write its content to one"));
    }
    let mut reader = ImageReader::open(path).map_err(|e| bad(&e))?.with_guessed_format().map_err(|e| bad(&e))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    reader.decode().map_err(|e| bad(&e))
}

fn central_crop(image: &DynamicImage, share: f64) -> DynamicImage {
    let (w, h) = (image.width(), image.height());
    let side = ((f64::from(w.min(h)) * share).round() as u32).clamp(1, w.min(h));
    image.crop_imm((w - side) / 2, (h - side) / 2, side, side)
}

/// The bytes of one prepared image, channels last.
fn prepare(image: &DynamicImage, p: &Preprocess) -> Vec<u8> {
    let cropped = p.crop.map(|share| central_crop(image, share));
    let image = cropped.as_ref().unwrap_or(image);
    let (h, w) = p.resize;
    let resized = if (image.height(), image.width()) == (h, w) {
        image.clone()
    } else {
        image.resize_exact(w, h, FilterType::Triangle)
    };
    match p.color {
        Color::Gray => resized.to_luma8().into_raw(),
        Color::Rgb => resized.to_rgb8().into_raw(),
        Color::Bgr => {
            let mut pixels = resized.to_rgb8().into_raw();
            pixels.chunks_exact_mut(3).for_each(|p| p.swap(0, 2));
            pixels
        }
    }
}

fn to_channels_first(pixels: &[u8], channels: usize) -> Vec<u8> {
    (0..channels).flat_map(|c| pixels.iter().skip(c).step_by(channels).copied()).collect()
}

/// Reads a folder, in the order of the file names.
pub fn read_folder(folder: &Path, p: &Preprocess) -> Result<Tensor> {
    if p.resize.0 == 0 || p.resize.1 == 0 || p.resize.0.max(p.resize.1) > MAX_SIDE {
        return Err(Error::invalid(codes::DATA_IMAGE, "images cannot be resized to that size")
            .at("key `preprocess.resize`")
            .found(format!("{:?}", p.resize))
            .expected(format!("(height, width) from 1 to {MAX_SIDE}")));
    }
    let channels = if p.color == Color::Gray { 1 } else { 3 };
    let (h, w) = (p.resize.0 as usize, p.resize.1 as usize);
    let files = image_files(folder)?;
    let mut bytes = Vec::new();
    for path in &files {
        let pixels = prepare(&decode(path)?, p);
        match p.layout {
            ImageLayout::Nhwc => bytes.extend(pixels),
            ImageLayout::Nchw => bytes.extend(to_channels_first(&pixels, channels)),
        }
    }
    let shape = match p.layout {
        ImageLayout::Nhwc => [files.len(), h, w, channels],
        ImageLayout::Nchw => [files.len(), channels, h, w],
    };
    Tensor::from_slice(&shape, &bytes).map_err(|e| Error::invalid(codes::DATA_IMAGE, e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, r) in [("b.png", 20u8), ("a.png", 10)] {
            let image = image::RgbImage::from_fn(4, 2, |x, _| image::Rgb([r, 0, x as u8]));
            image.save(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("notes.txt"), "no image").unwrap();
        dir
    }

    fn preprocess(color: Color, layout: ImageLayout, crop: Option<f64>) -> Preprocess {
        Preprocess { resize: (2, 4), crop, color, layout, scale: 1.0, offset: 0.0 }
    }

    #[test]
    fn images_are_read_by_name_in_the_asked_order() {
        let dir = folder();
        let x = read_folder(dir.path(), &preprocess(Color::Bgr, ImageLayout::Nchw, None)).unwrap();
        assert_eq!(x.shape(), [2, 3, 2, 4]);
        let bytes = x.as_slice::<u8>().unwrap();
        assert_eq!(&bytes[..8], [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!((bytes[16], bytes[24 + 16]), (10, 20));
    }

    #[test]
    fn the_crop_is_central_and_square() {
        let dir = folder();
        let p = Preprocess { resize: (2, 2), ..preprocess(Color::Rgb, ImageLayout::Nhwc, Some(1.0)) };
        let x = read_folder(dir.path(), &p).unwrap();
        assert_eq!(&x.as_slice::<u8>().unwrap()[..6], [10, 0, 1, 10, 0, 2]);
    }

    #[test]
    fn bad_folders_and_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let p = preprocess(Color::Rgb, ImageLayout::Nhwc, None);
        assert!(read_folder(dir.path(), &p).unwrap_err().to_string().contains("holds no images"));
        std::fs::write(dir.path().join("x.png"), "not a png").unwrap();
        assert!(read_folder(dir.path(), &p).unwrap_err().to_string().contains("x.png"));
        let zero = Preprocess { resize: (0, 4), ..p };
        assert!(read_folder(dir.path(), &zero).unwrap_err().to_string().contains("preprocess.resize"));
    }
}
