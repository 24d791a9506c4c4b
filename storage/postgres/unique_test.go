//go:build !race

package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// uniqueTypes returns a type for each mode, with its name, with timeouts and a limit by a value.
func uniqueTypes() policy.Set {
	modes := []policy.OnConflict{policy.KeepExisting, policy.RejectNew, policy.ReplaceExisting, policy.DebounceExisting}
	var names []string
	for _, m := range modes {
		names = append(names, m.String(), m.String()+" in time")
	}
	set := types(names...)
	set.Limits["by"] = policy.Limit{Name: "by", Max: 5, Per: "headers.by"}
	for i, name := range names {
		p := set.Types[name]
		p.Unique.OnConflict, p.Limits = modes[i/2], []string{"by"}
		if i%2 == 1 {
			p.Priority, p.Timeout.Queue, p.Timeout.Total, p.MaxLateness = 7, time.Hour, 24*time.Hour, time.Minute
		}
		set.Types[name] = p
	}
	return set
}

// takenRows are rows that may have a key when it is asked for again, by their state. A change of state 0 inserts only.
func takenRows(now time.Time) map[string]struct {
	first  engine.Request
	change task.Change
} {
	in := func(d time.Duration) time.Time { return now.Add(d) }
	return map[string]struct {
		first  engine.Request
		change task.Change
	}{
		"waits":                         {engine.Request{At: in(time.Hour)}, task.Change{}},
		"waits with an ordering key":    {engine.Request{At: in(time.Hour), OrderingKey: "o"}, task.Change{}},
		"waits and expires":             {engine.Request{At: in(time.Hour), ExpiresAt: in(2 * time.Hour)}, task.Change{}},
		"expires before it is ready":    {engine.Request{At: in(5 * time.Hour), ExpiresAt: in(2 * time.Hour)}, task.Change{}},
		"waits for ever":                {engine.Request{At: in(time.Hour)}, task.Change{To: task.Waiting}},
		"waits for ever and expires":    {engine.Request{ExpiresAt: in(time.Hour)}, task.Change{To: task.Waiting}},
		"is ready":                      {engine.Request{}, task.Change{}},
		"is ready with an ordering key": {engine.Request{OrderingKey: "o"}, task.Change{}},
		"has a checkpoint":              {engine.Request{}, task.Change{To: task.Waiting, NextEventAt: in(time.Hour), Checkpoint: new([]byte("c"))}},
		"runs":                          {engine.Request{}, task.Change{To: task.Processing, Owner: task.ID{1}}},
		"is cancelled":                  {engine.Request{}, task.Change{To: task.Cancelled, NextEventAt: in(time.Hour)}},
		"is in error":                   {engine.Request{}, task.Change{To: task.Error}},
	}
}

// The function add treats a taken key as an engine does.
func TestAddDoesWhatTheEngineDoesWithAKeyThatIsTaken(t *testing.T) {
	set := uniqueTypes()
	n := alone(t, server.Database(t), set, nil)
	now := time.Now().Truncate(time.Microsecond)
	for typ := range set.Types {
		for name, row := range takenRows(now) {
			for _, then := range []engine.Request{
				{Payload: []byte("new"), Headers: map[string]string{"by": "new"}},
				{At: now.Add(3 * time.Hour), ExpiresAt: now.Add(4 * time.Hour), Priority: number(1)},
				{At: now.Add(30 * time.Hour)},
				{At: now.Add(-time.Hour)},
			} {
				row.first.Type, row.first.Key, row.first.Payload, row.first.Headers = typ, "k", []byte("old"), map[string]string{"by": "old", "x": "y"}
				then.Type, then.Key, then.OrderingKey = typ, "k", row.first.OrderingKey
				engines := n.askAgain(now, row.first, row.change, then, false)
				sql := n.askAgain(now, row.first, row.change, then, true)
				if diff := cmp.Diff(engines, sql, cmp.AllowUnexported(answer{})); diff != "" {
					t.Errorf("type %s: the task %s, and then %s: (-engine +SQL)\n%s", typ, name, asSQL(then), diff)
				}
			}
		}
	}
}

// answer is the outcome of a request with a taken key.
type answer struct {
	outcome string
	err     string
	row     *task.Task
}

// askAgain adds a task, changes it, and asks for its key again, in a transaction that is rolled back.
func (n *node) askAgain(now time.Time, first engine.Request, change task.Change, then engine.Request, bySQL bool) (a answer) {
	n.t.Helper()
	err := pgx.BeginFunc(n.t.Context(), n.store.Pool(), func(tx pgx.Tx) error {
		x := n.store.Attach(tx)
		receipts, err := n.SubmitTx(n.t.Context(), x, first)
		if err != nil {
			return err
		}
		id := receipts[0].ID
		if change.To != 0 {
			change.Ref, change.At = task.Ref{ID: id, Version: 1}, time.Now()
			if rows, err := x.Swap(n.t.Context(), change); err != nil || rows[0] == nil {
				return fmt.Errorf("the task was not changed: %w", err)
			}
		}
		err = pgx.BeginFunc(n.t.Context(), tx, func(tx pgx.Tx) error {
			var err error
			a.outcome, err = n.ask(tx, n.store.Attach(tx), then, id, bySQL)
			return err
		})
		if errors.Is(err, engine.ErrExists) || errors.Is(err, engine.ErrLate) || isRefusal(err) {
			a.err, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: "), " (SQLSTATE ")
			a.err = numbersOf.ReplaceAllString(strings.ReplaceAll(a.err, id.String(), "ID"), "its time, more than some")
			err = nil
		}
		if err == nil {
			a.row, err = x.Get(n.t.Context(), id)
		}
		return errors.Join(err, errDeclined)
	})
	if !errors.Is(err, errDeclined) || strings.Contains(err.Error(), "\n") {
		n.t.Fatalf("%+v, %s: %v", first, asSQL(then), err)
	}
	a.row.ID, a.row.Shard, a.row.Seq = task.ID{}, 0, 0
	for _, at := range []*time.Time{&a.row.CreatedAt, &a.row.ReadyAt, &a.row.NextEventAt, &a.row.ExpiresAt, &a.row.StartedAt, &a.row.UpdatedAt} {
		if !at.IsZero() { // some are of this moment
			*at = time.Unix(0, 0).UTC().Add(at.Sub(now).Round(10 * time.Minute))
		}
	}
	return a
}

// numbersOf matches the numbers that the engine and SQL write in different ways.
var numbersOf = regexp.MustCompile("its time, .* more than .* in the past")

func isRefusal(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "TE002" || e.Code == "TE003")
}

func (n *node) ask(tx pgx.Tx, x storage.Tx, r engine.Request, id task.ID, bySQL bool) (outcome string, err error) {
	if !bySQL {
		receipts, err := n.SubmitTx(n.t.Context(), x, r)
		if err == nil && receipts[0].ID != id {
			err = fmt.Errorf("the answer is %+v", receipts[0])
		}
		if err != nil {
			return "", err
		}
		return receipts[0].Outcome.String(), nil
	}
	var got string
	var created bool
	err = tx.QueryRow(n.t.Context(), "select id::text, created, outcome from taskengine.add_bytes("+asSQL(r)+")", pgx.QueryExecModeSimpleProtocol).Scan(&got, &created, &outcome)
	if err == nil && (got != id.String() || created) {
		err = fmt.Errorf("the answer is %s, %t", got, created)
	}
	return outcome, err
}

func TestATaskThatSQLHasReplacedRunsWithWhatWasGivenLast(t *testing.T) {
	url := server.Database(t)
	set := types("ship")
	p := set.Types["ship"]
	p.Unique.OnConflict = policy.DebounceExisting
	set.Types["ship"] = p
	payloads := make(chan string, 9)
	n := join(t, url, set, map[string]work{"ship": func(_ context.Context, _ *node, t *task.Task) ([]byte, error) {
		payloads <- string(t.Payload)
		return nil, nil
	}})
	c := pgtest.Connect(t, url)
	if err := n.Pause(t.Context(), "ship"); err != nil {
		t.Fatal(err)
	}
	outcome := func(args string) string {
		t.Helper()
		return one[string](t, c, "select outcome from taskengine.add("+args+")")
	}
	for i, want := range []string{"created", "replaced", "replaced"} {
		for _, more := range []string{"key => 'ready'", "key => 'order', ordering_key => 'o'", "key => 'later', at => now() + interval '1 millisecond'"} {
			if got := outcome(fmt.Sprintf("'ship', '%d', %s", i, more)); got != want {
				t.Errorf("%d, %s: %s", i, more, got)
			}
		}
	}
	id := mustAdd(t, c, "'ship', '3', key => 'ready'").id
	if err := n.Unpause(t.Context(), "ship"); err != nil {
		t.Fatal(err)
	}
	n.end(id, task.Done)
	for range 3 {
		if got := <-payloads; got != "2" && got != "3" {
			t.Errorf("a task ran with %q", got)
		}
	}
	if got := outcome("'ship', '4', key => 'ready'"); got != "already_done" {
		t.Errorf("of a task that is done: %s", got)
	}
}

// A task that is added from SQL gets the key that the engine would make, or is refused as by the engine.
func TestAddMakesTheKeysOfTheEngine(t *testing.T) {
	set := types("one", "all")
	for name, by := range map[string][]string{"one": {"payload.a"}, "all": {"key", "payload.a", "headers.x.y", "ordering_key"}} {
		p := set.Types[name]
		p.Unique.By = by
		set.Types[name] = p
	}
	n := alone(t, server.Database(t), set, nil)
	texts := []string{"", "k", "\x1e", "a\x1fb", "\x1e1", "日本", strings.Repeat("long", 80)}
	text := func() string { return texts[rand.IntN(len(texts))] }
	ids := task.NewIDs([32]byte{3})
	taken, refused := 0, make(map[string]int)
	for i := range 3000 {
		r := engine.Request{
			ID: ids.Next(time.Now()), Type: []string{"one", "all"}[i%2], Payload: []byte(document(2)), OrderingKey: text(), Headers: map[string]string{"x.y": text(), "x": "no"},
		}
		if rand.IntN(2) == 0 {
			r.Payload = []byte(`{"a": ` + scalars[rand.IntN(len(scalars))] + `}`)
		}
		if rand.IntN(9) == 0 {
			r.Key = "given"
		}
		want, refusal := n.rowBySubmit(r)
		tx, err := n.store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = addRequest(t.Context(), tx, r)
		switch {
		case err != nil && refusal != nil && (!json.Valid(r.Payload) || mayBeRefused(r.Payload)): // PostgreSQL may find another reason
		case err != nil && refusal != nil:
			for _, part := range []string{"does not have it: add it, or a key", "needs payload.a", "bytes, of 500 allowed"} {
				if said := strings.Contains(refusal.Error(), part); said {
					if refused[part]++; !strings.Contains(err.Error(), part) {
						t.Errorf("refused with %v, and by the engine with %v", err, refusal)
					}
					break
				}
			}
		case err != nil && r.Key == "" && mayBeRefused(r.Payload):
		case err != nil || refusal != nil:
			t.Errorf("%+v: %v, and of the engine %v", r, err, refusal)
		default:
			taken++
			if got, err := n.store.Attach(tx).Get(t.Context(), r.ID); err != nil || got.Key != want.Key || got.Key == "" || got.Shard != want.Shard {
				t.Errorf("%+v: the key %q, %v; want %q", r, got.Key, err, want.Key)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Fatal(err)
		}
	}
	if taken < 200 || len(refused) < 3 {
		t.Errorf("%d were taken, and refused %v", taken, refused)
	}
}
