//! A provisioner in Rust to start from: gives a container its card and a greeting, whose text the class may set.
//! The standard library only; the types below mirror api/plugin/provisioner.h, where every promise stands.
//!
//!     rustc --edition 2021 --crate-type cdylib -O -o libskeleton.so skeleton.rs

#![allow(non_camel_case_types)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Mutex;

const ABI_VERSION: u32 = 1;
const OK: c_int = 0;
const NO_CHANGE: c_int = 2;
const EXISTS: c_int = 4;
const INVALID: c_int = 5;
const INTERNAL: c_int = 7;

#[repr(C)]
pub struct egpu_pair {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
pub struct egpu_call {
    struct_size: usize,
    key: *const c_char,
    deadline_ns: i64,
    host_state: *mut c_void,
}

#[repr(C)]
pub struct egpu_card {
    struct_size: usize,
    uuid: *const c_char,
    model: *const c_char,
    index: i64,
    core: i64,
    memory: i64,
    card_memory: i64,
}

#[repr(C)]
pub struct egpu_device {
    struct_size: usize,
    key: *const c_char,
    device: *const c_char,
    claim: *const c_char,
    node: *const c_char,
    cards: *const *const egpu_card,
    card_count: usize,
    parameters: *const egpu_pair,
    parameter_count: usize,
}

#[repr(C)]
pub struct egpu_container {
    struct_size: usize,
    pod: *const c_char,
    container: *const c_char,
}

#[repr(C)]
pub struct egpu_description {
    struct_size: usize,
    name: *const c_char,
    version: *const c_char,
    source: *const c_char,
    isolation: *const c_char,
}

/// The host's functions, as far as this plugin calls them: tables only grow at their end.
#[repr(C)]
pub struct egpu_host {
    struct_size: usize,
    abi_version: u32,
    log: extern "C" fn(c_int, *const c_char),
    remaining_ms: extern "C" fn(*const egpu_call) -> i64,
    cancelled: extern "C" fn(*const egpu_call) -> c_int,
    reply_message: extern "C" fn(*const egpu_call, *const c_char) -> c_int,
    reply_description: extern "C" fn(*const egpu_call, *const egpu_description) -> c_int,
    reply_key: extern "C" fn(*const egpu_call, *const c_char) -> c_int,
    reply_env: extern "C" fn(*const egpu_call, *const c_char, *const c_char) -> c_int,
    reply_device_node: extern "C" fn(*const egpu_call, *const c_char, *const c_char, *const c_char) -> c_int,
    reply_mount: extern "C" fn(*const egpu_call, *const c_char, *const c_char, *const c_char) -> c_int,
    reply_cdi_device: extern "C" fn(*const egpu_call, *const c_char) -> c_int,
}

/// The plugin's functions up to mount; the rest is absent, as its struct_size says.
#[repr(C)]
pub struct egpu_provisioner {
    struct_size: usize,
    abi_version: u32,
    describe: extern "C" fn(*const egpu_call) -> c_int,
    validate: extern "C" fn(*const egpu_call, *const egpu_pair, usize) -> c_int,
    provision: extern "C" fn(*const egpu_call, *const egpu_device) -> c_int,
    deprovision: extern "C" fn(*const egpu_call) -> c_int,
    resize: Option<extern "C" fn(*const egpu_call, *const egpu_device) -> c_int>,
    list: extern "C" fn(*const egpu_call) -> c_int,
    discover: Option<extern "C" fn(*const egpu_call) -> c_int>,
    stage: Option<extern "C" fn(*const egpu_call, *const egpu_device) -> c_int>,
    mount: extern "C" fn(*const egpu_call, *const egpu_device, *const egpu_container) -> c_int,
}

static HOST: AtomicPtr<egpu_host> = AtomicPtr::new(std::ptr::null_mut());
/// What was provisioned: key to content.
static RECORDS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn host() -> &'static egpu_host {
    unsafe { &*HOST.load(Ordering::Acquire) }
}

fn text(s: *const c_char) -> String {
    unsafe { CStr::from_ptr(s) }.to_string_lossy().into_owned()
}

fn c(s: &str) -> CString {
    CString::new(s.replace('\0', "")).unwrap()
}

/// No panic may leave a slot.
fn guarded(body: impl FnOnce() -> c_int + std::panic::UnwindSafe) -> c_int {
    catch_unwind(body).unwrap_or(INTERNAL)
}

fn refuse(call: *const egpu_call, code: c_int, why: &str) -> c_int {
    (host().reply_message)(call, c(why).as_ptr());
    code
}

fn key_of(call: *const egpu_call) -> String {
    text(unsafe { (*call).key })
}

fn cards(device: &egpu_device) -> Vec<&egpu_card> {
    (0..device.card_count).map(|i| unsafe { &**device.cards.add(i) }).collect()
}

fn pairs(parameters: *const egpu_pair, count: usize) -> BTreeMap<String, String> {
    (0..count)
        .map(|i| unsafe { &*parameters.add(i) })
        .map(|p| (text(p.key), text(p.value)))
        .collect()
}

/// Why the call cannot be served, if so.
fn incomplete(call: *const egpu_call, device: Option<&egpu_device>) -> Option<&'static str> {
    if key_of(call).is_empty() {
        return Some("the call has no key");
    }
    let device = device?;
    if device.card_count == 0 {
        return Some("the device has no cards");
    }
    if cards(device).iter().any(|card| text(card.uuid).is_empty()) {
        return Some("a card has no uuid");
    }
    None
}

/// All that makes two devices the same; the claim is no part of it.
fn content(d: &egpu_device) -> String {
    let cards: Vec<_> = cards(d).iter().map(|card| (text(card.uuid), card.core, card.memory)).collect();
    format!("{:?}", (text(d.device), text(d.node), cards, pairs(d.parameters, d.parameter_count)))
}

extern "C" fn describe(call: *const egpu_call) -> c_int {
    let (name, version) = (c("rust-skeleton.example.com"), c("1.0"));
    let (source, isolation) = (c("gpuShare"), c("Advisory"));
    let description = egpu_description {
        struct_size: std::mem::size_of::<egpu_description>(),
        name: name.as_ptr(),
        version: version.as_ptr(),
        source: source.as_ptr(),
        isolation: isolation.as_ptr(),
    };
    (host().reply_description)(call, &description)
}

extern "C" fn validate(call: *const egpu_call, parameters: *const egpu_pair, count: usize) -> c_int {
    guarded(|| {
        for name in pairs(parameters, count).keys() {
            if name != "greeting" {
                let why = format!("unknown parameter \"{name}\"; this provisioner knows greeting");
                return refuse(call, INVALID, &why);
            }
        }
        OK
    })
}

/// On the controller's side, keyed by the device's uid.
extern "C" fn provision(call: *const egpu_call, device: *const egpu_device) -> c_int {
    guarded(|| {
        let device = unsafe { &*device };
        if let Some(why) = incomplete(call, Some(device)) {
            return refuse(call, INVALID, why);
        }
        let (key, wanted) = (key_of(call), content(device));
        let mut records = RECORDS.lock().unwrap();
        match records.get(&key) {
            None => {
                records.insert(key, wanted);
                OK
            }
            Some(known) if *known == wanted => NO_CHANGE,
            Some(_) => refuse(call, EXISTS, &format!("key {key} is in use with other content")),
        }
    })
}

extern "C" fn deprovision(call: *const egpu_call) -> c_int {
    guarded(|| {
        if let Some(why) = incomplete(call, None) {
            return refuse(call, INVALID, why);
        }
        RECORDS.lock().unwrap().remove(&key_of(call));
        OK
    })
}

extern "C" fn list(call: *const egpu_call) -> c_int {
    guarded(|| {
        for key in RECORDS.lock().unwrap().keys() {
            (host().reply_key)(call, c(key).as_ptr());
        }
        OK
    })
}

/// On the node: what the container gets. Must depend on its arguments alone.
extern "C" fn mount(call: *const egpu_call, device: *const egpu_device, _: *const egpu_container) -> c_int {
    guarded(|| {
        let device = unsafe { &*device };
        if let Some(why) = incomplete(call, Some(device)) {
            return refuse(call, INVALID, why);
        }
        let parameters = pairs(device.parameters, device.parameter_count);
        let greeting = parameters.get("greeting").map_or("hello", |s| s.as_str());
        (host().reply_env)(call, c("GREETING").as_ptr(), c(greeting).as_ptr());
        for card in cards(device) {
            let node = c(&format!("/dev/nvidia{}", card.index));
            (host().reply_device_node)(call, node.as_ptr(), c("").as_ptr(), c("rw").as_ptr());
            let name = c(&format!("nvidia.com/gpu={}", text(card.uuid)));
            (host().reply_cdi_device)(call, name.as_ptr());
        }
        OK
    })
}

static TABLE: egpu_provisioner = egpu_provisioner {
    struct_size: std::mem::size_of::<egpu_provisioner>(),
    abi_version: ABI_VERSION,
    describe,
    validate,
    provision,
    deprovision,
    resize: None,
    list,
    discover: None,
    stage: None,
    mount,
};

/// The entry symbol.
///
/// # Safety
/// The host gives its table, which stays, and a place for ours.
#[no_mangle]
pub unsafe extern "C" fn egpu_provisioner_entry(
    host: *const egpu_host,
    provisioner: *mut *const egpu_provisioner,
) -> c_int {
    let there = std::mem::size_of::<egpu_host>();
    if (*host).abi_version != ABI_VERSION || (*host).struct_size < there {
        return INVALID;
    }
    HOST.store(host as *mut egpu_host, Ordering::Release);
    *provisioner = &TABLE;
    OK
}
