//go:build unix

package pgtest

import "testing"

func TestDatabasesAreSeparate(t *testing.T) {
	a, b := server.Database(t), server.Database(t)
	if a == b {
		t.Fatalf("both are %s", a)
	}
	execute(t, connect(t, a), "CREATE TABLE things (n int)")
	if n := ask[int](t, connect(t, b), "SELECT count(*) FROM pg_tables WHERE tablename = 'things'"); n != 0 {
		t.Error("what was made in one database is in another")
	}
}

func TestADatabaseIsDroppedDespiteConnections(t *testing.T) {
	count := "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"
	admin := connect(t, server.URL("postgres"))
	before := ask[int](t, admin, count)
	t.Run("user", func(sub *testing.T) {
		connect(t, server.Database(sub)) // until the outer test has ended
		if n := ask[int](t, admin, count); n != before+1 {
			t.Errorf("there are %d databases, want one more than %d", n, before)
		}
	})
	if n := ask[int](t, admin, count); n != before {
		t.Errorf("there are %d databases, want %d again", n, before)
	}
}
