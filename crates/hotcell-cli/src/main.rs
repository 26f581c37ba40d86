//! The `hotcell` command.

fn main() {}
