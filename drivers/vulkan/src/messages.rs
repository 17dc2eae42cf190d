//! What the validation layers say: kept, so that a test can read it, and an error of the next call of the device.

use ash::vk;
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// More messages than this are not kept.
const KEPT: usize = 64;

/// The messages of one instance.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Vec<String>>);

impl Messages {
    /// All that was said so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn add(&self, text: String) {
        tracing::warn!("validation: {text}");
        let mut kept = self.0.lock();
        if kept.len() < KEPT {
            kept.push(text);
        }
    }

    /// The first message as an error.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.lock().first() {
            None => Ok(()),
            Some(text) => Err(Error::failed(Status::Internal, format!("the validation layers object: {text}"))),
        }
    }
}

/// How a messenger is made that fills `messages`, which must outlive it.
pub(crate) fn messenger(messages: &Arc<Messages>) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    type Severity = vk::DebugUtilsMessageSeverityFlagsEXT;
    type Kind = vk::DebugUtilsMessageTypeFlagsEXT;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::WARNING | Severity::ERROR)
        .message_type(Kind::VALIDATION | Kind::PERFORMANCE)
        .pfn_user_callback(Some(heard))
        .user_data(Arc::as_ptr(messages).cast_mut().cast())
}

unsafe extern "system" fn heard(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: `user` is what `messenger` gave, and lives; the layer passes a structure whose text ends with 0, or NULL.
    unsafe {
        let messages = &*user.cast_const().cast::<Messages>();
        if let Some(text) = data.as_ref().map(|d| d.p_message).filter(|t| !t.is_null()) {
            messages.add(CStr::from_ptr(text).to_string_lossy().into_owned());
        }
    }
    vk::FALSE
}
