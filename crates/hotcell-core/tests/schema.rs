//! The committed JSON Schema is the one that the code generates.

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/hotcell.schema.json");
    let generated = hotcell_core::schema::json();
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).expect("the schema can be written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    // As values: the order of keys depends on how serde_json was built.
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    assert!(value(&committed) == value(&generated), "{path} is out of date; run the tests once with UPDATE_SCHEMA=1");
}
