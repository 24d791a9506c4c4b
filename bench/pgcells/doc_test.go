// Package pgcells has a [cells.Store] on PostgreSQL, for measurements only: ADR 122 compares it with coord/postgres, and says
// why that is not such a store. It passes the suites of the ports. It has no polling for connections that cannot LISTEN,
// waits for locks for as long as they are held, keeps the rows of removed cells for ever, and does not notice that the clock
// of the database was set back.
//
//	schema_test.go  the tables and statements
//	store_test.go   the store
//	suite_test.go   the suites of the ports
//	bench_test.go   the benchmarks of both
package pgcells
