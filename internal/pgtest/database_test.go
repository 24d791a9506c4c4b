//go:build unix

package pgtest

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestDatabasesAreSeparate(t *testing.T) {
	a, b := server.Database(t), server.Database(t)
	if a == b {
		t.Fatalf("both are %s", a)
	}
	execute(t, connect(t, a), "CREATE TABLE things (n int)")
	if n := ask[int](t, connect(t, b), "SELECT count(*) FROM pg_tables WHERE tablename = 'things'"); n != 0 {
		t.Error("a table of one database is in another")
	}
}

func TestACopyHasWhatTheDatabaseHasAndIsApart(t *testing.T) {
	first := server.Database(t)
	conn, err := pgx.Connect(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, conn, "CREATE TABLE things (n int)")
	if err := conn.Close(t.Context()); err != nil { // a copy is made of a database without connections
		t.Fatal(err)
	}
	second := server.Copy(t, first)
	execute(t, connect(t, second), "INSERT INTO things VALUES (1)")
	if n := ask[int](t, connect(t, first), "SELECT count(*) FROM things"); n != 0 {
		t.Error("a row of the copy is in the original database")
	}
}

func TestPreparedDatabasesAreEqualAndApart(t *testing.T) {
	prepare := func(url string) error {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(t.Context(), "CREATE TABLE things (n int)")
		return errors.Join(err, conn.Close(t.Context()))
	}
	first, second := server.Prepared(t, prepare), server.Prepared(t, prepare)
	execute(t, connect(t, first), "INSERT INTO things VALUES (1)")
	if n := ask[int](t, connect(t, second), "SELECT count(*) FROM things"); n != 0 {
		t.Error("a row of one database is in another")
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
