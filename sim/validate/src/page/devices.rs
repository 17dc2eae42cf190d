//! The devices of a page, in the order in which it names them, and their colours.

use super::Page;

/// Colours that the style sheet has for devices.
const N_COLORS: usize = 6;

/// Names of devices without repetition.
pub(super) struct Devices<'a>(Vec<&'a str>);

impl<'a> Devices<'a> {
    /// All devices that the page names.
    pub fn of(page: &'a Page) -> Self {
        let partitions = page.partitions.iter().map(|p| p.device.as_str());
        let placement = page.placement.iter().map(|p| p.device.as_str());
        let tracks = page.timeline.iter().map(|t| t.device.as_str());
        let layers = page.layers.iter().map(|l| l.device.as_str());
        let mut names = Vec::new();
        for name in partitions.chain(placement).chain(tracks).chain(layers) {
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        Self(names)
    }

    /// The class that colours a device; grey once the colours are used up.
    pub fn class(&self, device: &str) -> &'static str {
        const CLASSES: [&str; N_COLORS] = ["d0", "d1", "d2", "d3", "d4", "d5"];
        // Where nothing was placed, everything has the first colour.
        if device.is_empty() {
            return CLASSES[0];
        }
        let place = self.0.iter().position(|name| *name == device);
        place.and_then(|i| CLASSES.get(i)).copied().unwrap_or("dx")
    }
}
