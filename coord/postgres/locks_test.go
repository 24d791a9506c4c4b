//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/task"
)

// lines is a log that is kept. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// lock locks a table until release is called, or the test ends. It returns how the session is named.
func lock(t *testing.T, url, table, mode string) (named string, release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url+"&application_name=shop")
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	t.Cleanup(release)
	if _, err := conn.PgConn().Exec(t.Context(), "BEGIN; LOCK TABLE taskengine."+table+" IN "+mode+" MODE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("session %d (shop", conn.PgConn().PID()), release
}

// A lock of a table of the coordination, such as of a migration of another program, costs a node its lease only if the
// table is needed to renew it, and not before the lease is over. The node says which session has the lock.
func TestWhatALockOfATableCostsANode(t *testing.T) {
	t.Parallel()
	for _, table := range postgres.Tables() {
		modes := []string{"SHARE", "ACCESS EXCLUSIVE"}
		if table == "session" || table == "permit" {
			modes = append(modes, "SHARE ROW EXCLUSIVE", "EXCLUSIVE")
		}
		for _, mode := range modes {
			isLost := table == "session" || mode == "ACCESS EXCLUSIVE" && (table == "member" || table == "leader" || table == "pulse")
			t.Run(table+" in "+strings.ToLower(mode), func(t *testing.T) {
				t.Parallel()
				retried(t, func(t *testing.T, lease time.Duration) bool { return holdLock(t, lease, table, mode, isLost) })
			})
		}
	}
}

func holdLock(t *testing.T, lease time.Duration, table, mode string, isLost bool) (lapsed bool) {
	url, log := database(t), new(lines)
	n := connect(t, url, setup{Options: postgres.Options{Lease: lease, Log: slog.New(slog.NewTextHandler(log, nil))}})
	reigns := lead(t, n, "role")
	receive(t, "the role", reigns)
	before := n.lease(t)
	isLapsed := func() bool { return n.Session() != before }
	list, _ := join(t, n, task.ID{1})
	p := hold(t, n)
	p.order("limit", 1, 2)
	eventually(t, "the member and its permit", func() bool { return isLapsed() || len(list()) == 1 && p.has("limit", 1) })
	named, release := lock(t, url, table, mode)
	if isLapsed() {
		return true
	}
	said, stop := useConnections(t, n)
	defer stop()
	if isLost {
		eventually(t, "the end of the lease", isLapsed)
		eventually(t, "a line about "+named, func() bool { return log.has("renewing the lease") && log.has(named) })
	} else {
		for end := time.Now().Add(lease * 5 / 4); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if isLapsed() {
				t.Logf("the lease is over: %s", log.text.String())
				return true
			}
		}
		p.order("limit", 2, 2)
		switch {
		case table == "permit" || table == "semaphore":
			eventually(t, "a line about the lock", func() bool { return isLapsed() || log.has("ordering permits") && log.has(named) })
		case table == "rate" || table == "setting":
			if text := receive(t, "an error", said); !strings.Contains(text, named) {
				t.Errorf("the error does not name %s: %s", named, text)
			}
		}
	}
	release()
	n.lease(t)
	eventually(t, "everything works again", func() bool {
		return draw(t.Context(), n, 0) == nil && swap(n, "last") == nil && settings(n) == nil
	})
	if isLost {
		receive(t, "the role again", reigns)
		return false
	}
	return isLapsed()
}

// useConnections uses the connections of a node until stop is called. Errors are said.
func useConnections(t *testing.T, n *node) (said <-chan string, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	all := make(chan string, 100)
	for i := range 2 {
		busy.Go(func() {
			for ctx.Err() == nil {
				for _, err := range []error{draw(ctx, n, i), swap(n, fmt.Sprint("value ", i)), settings(n)} {
					if err != nil {
						select {
						case all <- err.Error():
						default:
						}
					}
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return all, func() { cancel(); busy.Wait() }
}

func draw(ctx context.Context, n *node, i int) error {
	_, err := n.Draw(ctx, coord.Draw{Name: fmt.Sprint("rate ", i), Interval: time.Microsecond, Burst: 1000, Tokens: 1})
	return err
}

// A node that is gone is not reaped while another session keeps its rows locked. In that time the others keep their leases,
// and afterwards they take over its roles and permits.
func TestALockDoesNotMakeTheDeathOfANodeThatOfAll(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"permit", "semaphore", "leader", "member", "pulse"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			retried(t, func(t *testing.T, lease time.Duration) bool { return lockTheRowsOfTheDead(t, lease, table) })
		})
	}
}

func lockTheRowsOfTheDead(t *testing.T, lease time.Duration, table string) (lapsed bool) {
	url := database(t)
	s := setup{Options: postgres.Options{Lease: lease}}
	gone, stays := connect(t, url, s), connect(t, url, s)
	receive(t, "the role", lead(t, gone, "role"))
	_, goneEnd := join(t, gone, task.ID{1})
	list, staysEnd := join(t, stays, task.ID{2})
	p := hold(t, gone)
	p.order("limit", 1, 1)
	eventually(t, "both members and a permit", func() bool {
		return len(goneEnd)+len(staysEnd) > 0 || len(list()) == 2 && p.has("limit", 1)
	})
	before := stays.lease(t)
	_, release := lock(t, url, table, "SHARE")
	gone.wire.Stall()
	t.Cleanup(gone.wire.Resume)
	for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if stays.Session() != before || len(staysEnd) > 0 || len(list()) != 2 {
			t.Logf("the lease of the other node is over, or the members are %v", list())
			return true
		}
	}
	release()
	eventually(t, "the end of the other member", func() bool { return len(staysEnd) > 0 || len(list()) == 1 })
	receive(t, "the role of the other node", lead(t, stays, "role"))
	q := hold(t, stays)
	q.order("limit", 1, 1)
	q.gets(t, "limit", 1)
	return false
}
