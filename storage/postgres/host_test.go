package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// loseHost has the host of a store lost in the middle of a transaction of several round trips that has locked a row.
// It returns the row.
func loseHost(t *testing.T, url string, wire *wiretest.Wire, s *postgres.Store) *task.Task {
	t.Helper()
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	// The first statement of the change waits for the row, and has it when nothing arrives any more.
	holder := pgtest.Connect(t, url)
	pgtest.Exec(t, holder, "begin", "select from taskengine.task for update")
	ctx, giveUp := context.WithCancel(t.Context())
	changed := make(chan error, 1)
	go func() {
		_, err := s.Swap(ctx, task.Change{Ref: row.Ref(), To: task.Error, At: moment, Error: "no"})
		changed <- err
	}()
	look := pgtest.Connect(t, url)
	for one[int](t, look, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0 {
		select {
		case err := <-changed:
			t.Fatalf("the change did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	wire.Stall()
	pgtest.Exec(t, holder, "rollback")
	giveUp()
	<-changed
	return row
}

// A host that is lost within a transaction keeps the locks of that for seconds, and not until TCP gives up.
func TestALostHostKeepsItsLocksForSecondsOnly(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	wire := wiretest.New(t, url)
	lost, err := postgres.Open(t.Context(), wire.URL(), postgres.Options{Idle: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Heal(); _ = lost.Close() })
	row := loseHost(t, url, wire, lost)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := s.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Cancelled, At: moment})
		if err == nil {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("the row is still locked: %v", err)
		}
	}
}

// The sessions of a node that is gone are ended, and none of another.
func TestSessionsOfANodeThatIsGoneAreEnded(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	wire := wiretest.New(t, url)
	lost, err := postgres.Open(t.Context(), wire.URL()+"&application_name=a%20name%20of%20a%20program%20that%20is%20much%20too%20long", postgres.Options{Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Heal(); _ = lost.Close() })
	alive, gone, other := task.ID{1}, task.ID{2}, task.ID{3}
	defer s.Identify(alive)()
	lost.Identify(other)()
	defer lost.Identify(gone)()
	row := loseHost(t, url, wire, lost)
	quiet := pgtest.Connect(t, url+"&application_name="+one[string](t, s.Pool(), "select replace(current_setting('application_name'), ' ', '%20')"))
	pgtest.Exec(t, quiet, "begin", "select 1")
	for _, id := range []task.ID{alive, gone} {
		for nodes, err := s.Silent(t.Context(), 0); err != nil || !slices.Contains(nodes, id); nodes, err = s.Silent(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if nodes, err := s.Silent(t.Context(), time.Hour); err != nil || len(nodes) > 0 {
		t.Errorf("silent for an hour: %v, %v", nodes, err)
	}
	if n, err := s.End(t.Context(), time.Hour, gone, other); n != 0 || err != nil {
		t.Errorf("%d sessions were ended, %v", n, err)
	}
	if n, err := s.End(t.Context(), 0, gone, other); n != 1 || err != nil {
		t.Errorf("%d sessions were ended, %v", n, err)
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := s.Swap(t.Context(), task.Change{Ref: row.Ref(), To: task.Cancelled, At: moment})
		if err == nil {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("the row is still locked: %v", err)
		}
	}
	pgtest.Exec(t, quiet, "commit") // it lives
}

// A node that is lost in a transaction keeps nothing locked when the others know that it is gone.
func TestANodeThatIsLostInATransactionDelaysNoOther(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	wire := wiretest.New(t, url)
	lost, err := postgres.Open(t.Context(), wire.URL(), postgres.Options{Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Heal(); _ = lost.Close() })
	defer lost.Identify(task.ID{2})() // it was a member, and is none any more
	row := loseHost(t, url, wire, lost)
	n := joinWith(t, url, types("mail"), map[string]work{"mail": nothing}, time.Second)
	n.end(row.ID, task.Done)
}

// The server probes connections of a store that are silent, unless the connection string says otherwise. PgBouncer
// takes the settings.
func TestTheServerNoticesThatAConnectionIsLost(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	bouncer := server.Bouncer(t)
	const settings = "select current_setting('tcp_keepalives_idle') || ' ' || current_setting('tcp_keepalives_interval') || ' ' || current_setting('tcp_keepalives_count') || ' ' || current_setting('tcp_user_timeout')"
	for _, c := range []struct{ what, url, want string }{
		{"directly", url, "5 2 3 10000"},
		{"with a setting of its own", url + "&tcp_keepalives_idle=77", "77 2 3 10000"},
		{"with options", url + "&options=-ctcp_user_timeout%3D5555", "5 2 3 5555"},
		{"by PgBouncer", pgtest.Through(bouncer, url) + "&default_query_exec_mode=cache_describe", ""},
	} {
		s, err := postgres.Open(t.Context(), c.url, postgres.Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		var got string
		if err := s.Pool().QueryRow(t.Context(), settings).Scan(&got); err != nil || c.want != "" && got != c.want {
			t.Errorf("%s: the settings are %q, %v; want %q", c.what, got, err, c.want)
		}
		row := &task.Task{ID: task.ID{byte(len(c.what))}, Version: 1, State: task.Submitted, Type: "mail"}
		if _, err := s.Insert(t.Context(), row); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The limit of idle transactions holds for transactions of the store alone.
func TestTransactionsOfCallersMayBeIdle(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	const limit = "select current_setting('idle_in_transaction_session_timeout')"
	err := s.Within(t.Context(), s.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if _, err := x.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
			return err
		}
		var got string
		if err := tx.QueryRow(t.Context(), limit).Scan(&got); err != nil {
			return err
		}
		if got != "0" {
			t.Errorf("a transaction of a caller may be idle for %s", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var got string
	if err := s.Pool().QueryRow(t.Context(), limit).Scan(&got); err != nil || got != "0" {
		t.Errorf("outside of a transaction: %q, %v", got, err)
	}
}
