//go:build unix

package pgtest

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/servertest"
)

func TestClientsOfABouncerShareAConnectionToTheServer(t *testing.T) {
	database := server.Database(t)
	pooled := Through(server.Bouncer(t, "default_pool_size=1"), database)
	a, b := connect(t, pooled), connect(t, pooled)
	const who = "SELECT pg_backend_pid()"
	for range 3 {
		if x, y := ask[int](t, a, who), ask[int](t, b, who); x != y {
			t.Fatalf("two clients of one pooled connection were served by %d and %d", x, y)
		}
	}
	execute(t, a, "BEGIN")
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.Exec(short, who); err == nil {
		t.Error("a client was served by the connection of another one's transaction")
	}
	execute(t, a, "COMMIT")

	if x, y := ask[int](t, connect(t, database), who), ask[int](t, connect(t, database), who); x == y {
		t.Error("clients share a connection without a bouncer, too: this test shows nothing")
	}
}

func TestABouncerFindsAServerThatWasRestarted(t *testing.T) {
	s := startOne(t)
	pooled := Through(s.Bouncer(t), s.Database(t))
	ask[int](t, connect(t, pooled), "SELECT 1")
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	conn := connect(t, pooled) // the bouncer has it wait for a server
	if _, err := conn.Exec(ctx, "SELECT 1"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestABouncerEndsWithItsTest(t *testing.T) {
	var bouncer string
	t.Run("user", func(t *testing.T) { bouncer = server.Bouncer(t) })
	if conn, err := net.Dial("tcp", bouncer); err == nil {
		conn.Close()
		t.Errorf("a process still listens on %s", bouncer)
	}
}

func TestThroughChangesTheAddressOnly(t *testing.T) {
	u, err := url.Parse(Through("127.0.0.1:6432", server.URL("things")))
	if err != nil {
		t.Fatal(err)
	}
	if want := "postgres://postgres@127.0.0.1:6432/things?sslmode=disable"; u.String() != want {
		t.Errorf("it is %s, want %s", u, want)
	}
}
