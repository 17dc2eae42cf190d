//! The loader and the instance: opened at run time, shared by everything in the process that asks for the same kind.
//!
//! Without validation there is one instance as long as anyone uses it. An instance with validation belongs to one device,
//! and so do its messages.

use crate::messages::{self, Messages};
use ash::{Entry, ext, vk};
use ottava_hal::{Error, Reason, Result};
use parking_lot::Mutex;
use std::ffi::CStr;
use std::sync::{Arc, Weak};

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// The oldest version that has everything which the driver needs in its core.
pub(crate) const LEAST_VERSION: u32 = vk::API_VERSION_1_2;

/// An instance; the loader stays open as long as it lives.
pub(crate) struct Instance {
    pub raw: ash::Instance,
    /// The version that was agreed upon: 1.2 or 1.3.
    pub version: u32,
    /// What the validation layers said.
    pub messages: Option<Arc<Messages>>,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    _entry: Entry,
}

/// The instance without validation, as long as someone has it.
static SHARED: Mutex<Weak<Instance>> = Mutex::new(Weak::new());

impl Instance {
    /// The instance of this process.
    pub(crate) fn shared() -> Result<Arc<Self>> {
        let mut shared = SHARED.lock();
        if let Some(instance) = shared.upgrade() {
            return Ok(instance);
        }
        let instance = Arc::new(Self::new(None)?);
        *shared = Arc::downgrade(&instance);
        Ok(instance)
    }

    /// An instance of its own whose calls the validation layers check, also for hazards between commands.
    pub(crate) fn validated() -> Result<Arc<Self>> {
        Ok(Arc::new(Self::new(Some(Arc::default()))?))
    }

    fn new(messages: Option<Arc<Messages>>) -> Result<Self> {
        // SAFETY: the Vulkan loader of the system is a library whose initialization has no demands.
        let entry = unsafe { Entry::load() };
        let entry = entry.map_err(|e| absent(format!("there is no Vulkan loader on this machine ({e})")))?;
        // SAFETY: a query without preconditions.
        let found = unsafe { entry.try_enumerate_instance_version() };
        let found = found.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
        if found < LEAST_VERSION {
            return Err(absent(format!("the Vulkan loader is of version {}, 1.2 is needed", version_text(found))));
        }
        let version = found.min(vk::API_VERSION_1_3);
        if messages.is_some() {
            check_layer(&entry)?;
        }
        let raw = create(&entry, version, messages.is_some())?;
        let messenger = messages.as_ref().map(|m| attach(&entry, &raw, m)).transpose();
        let messenger = match messenger {
            Ok(messenger) => messenger,
            Err(e) => {
                // SAFETY: nothing has been made of the instance.
                unsafe { raw.destroy_instance(None) };
                return Err(e);
            }
        };
        Ok(Self { raw, version, messages, messenger, _entry: entry })
    }
}

/// `1.3` of a version number.
pub(crate) fn version_text(version: u32) -> String {
    format!("{}.{}", vk::api_version_major(version), vk::api_version_minor(version))
}

fn absent(what: String) -> Error {
    Error::unsupported(Reason::Other, what)
}

fn check_layer(entry: &Entry) -> Result<()> {
    // SAFETY: a query without preconditions.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    if layers.iter().any(|l| l.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        return Ok(());
    }
    Err(absent("option validation: the layer VK_LAYER_KHRONOS_validation is not installed".into()))
}

fn create(entry: &Entry, version: u32, validated: bool) -> Result<ash::Instance> {
    let application = vk::ApplicationInfo::default().engine_name(c"ottava").api_version(version);
    let (layers, extensions) = ([VALIDATION_LAYER.as_ptr()], [ext::debug_utils::NAME.as_ptr()]);
    let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
    let mut info = vk::InstanceCreateInfo::default().application_info(&application);
    if validated {
        info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions).push_next(&mut features);
    }
    // SAFETY: the structures and what they point to live during the call; layer and extension are present.
    let made = unsafe { entry.create_instance(&info, None) };
    made.map_err(|e| absent(format!("the Vulkan loader gives no instance: {e}; is a driver (ICD) installed?")))
}

fn attach(
    entry: &Entry,
    raw: &ash::Instance,
    messages: &Arc<Messages>,
) -> Result<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)> {
    let utils = ext::debug_utils::Instance::new(entry, raw);
    let info = messages::messenger(messages);
    // SAFETY: the extension is enabled; the messages live as long as the instance, which outlives the messenger.
    let messenger = unsafe { utils.create_debug_utils_messenger(&info, None) };
    let messenger = messenger.map_err(|e| absent(format!("option validation: no messenger: {e}")))?;
    Ok((utils, messenger))
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: whatever was made of the instance holds it, so nothing of it is left.
        unsafe {
            if let Some((utils, messenger)) = self.messenger.take() {
                utils.destroy_debug_utils_messenger(messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}
