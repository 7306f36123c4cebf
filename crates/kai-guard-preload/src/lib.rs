//! `libkai_guard.so`, loaded into the processes of a container by `/etc/ld.so.preload`.
//!
//! It has no constructor. A process that resolves no CUDA or NVML symbol never runs more of it than the first
//! lines of `dlsym`. Its contract with other components is in `../kai-guard/README.md`.
//!
//! | module | contents |
//! |---|---|
//! | `elf` | symbols of loaded objects, without `dlsym` |
//! | `resolve` | `dlsym`, `dlvsym`, `cuGetProcAddress`: which address a caller gets |
//! | `symbols` | the table of hooked functions and the real addresses |
//! | `state`, `attach`, `processes` | limits, region and slot of this process; which other processes run |
//! | `account` | reservations, refusals, what is tried before a refusal |
//! | `measured` | what NVML says this process holds |
//! | `local_symbols` | what older glibc keeps in libraries that an image may lack |
//! | `hooks` | one module per family of functions |

#![cfg_attr(test, allow(dead_code, reason = "unit tests export nothing, so most hooks are unused"))]

mod account;
mod attach;
mod cuda;
mod elf;
mod hooks;
mod local_symbols;
mod measured;
mod processes;
mod resolve;
mod state;
mod symbols;

/// Marks the library, so that a second copy in the same process is never taken for the driver.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub static KAI_GUARD_LIBRARY: u32 = 1;
