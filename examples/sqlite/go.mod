module github.com/taskengine/taskengine/examples/sqlite

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/taskengine/taskengine v0.0.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/taskengine/taskengine => ../..
