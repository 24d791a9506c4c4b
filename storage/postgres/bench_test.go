package postgres_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/storagetest"
)

func BenchmarkStore(b *testing.B) {
	storagetest.Benchmark(b, func(tb testing.TB) storage.Store { return postgrestest.Open(tb, server.Database(tb)) })
}

func BenchmarkLogs(b *testing.B) {
	storagetest.BenchmarkLogs(b, func(tb testing.TB) storage.Store { return postgrestest.Open(tb, server.Database(tb)) })
}

func BenchmarkSearch(b *testing.B) {
	storagetest.BenchmarkSearch(b, func(tb testing.TB) storage.Store { return postgrestest.Open(tb, server.Database(tb)) })
}
