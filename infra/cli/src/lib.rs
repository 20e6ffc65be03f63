//! The `lapse` command as a library, so that tests can call what a person calls.
//!
//! Owns: the commands. Must not: hold rules; explanations call the very code that the functions call.

pub mod check;
pub mod columns;
pub mod commands;
pub mod dead;
pub mod delivery;
pub mod demo;
pub mod deployed;
pub mod destination;
pub mod explain;
pub mod guard;
pub mod jsonl;
pub mod local;
pub mod producer;
pub mod sign;
pub mod span;
