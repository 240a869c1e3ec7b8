"""Reading and writing: files written whole, strict YAML and JSON, documents with schemas, the data that edgedla brings."""
