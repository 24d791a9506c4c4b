//go:build !race

package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// ending is how an attempt is ended: by a function of the database, or by the engine.
type ending struct {
	again      bool
	at         time.Time
	result     []byte
	payload    *[]byte
	checkpoint *[]byte
}

func (e ending) String() string {
	if !e.again {
		return fmt.Sprintf("finish with a result of %d bytes", len(e.result))
	}
	return fmt.Sprintf("again at %v, payload %v, checkpoint %v", e.at, e.payload != nil, e.checkpoint != nil)
}

// bySQL ends the attempt of t in tx by the functions of the database.
func (e ending) bySQL(ctx context.Context, tx pgx.Tx, t *task.Task) error {
	if !e.again {
		_, err := tx.Exec(ctx, "select taskengine.finish_bytes($1, $2, $3)", t.ID.String(), int64(t.Version), e.result)
		return err
	}
	bytes := func(b *[]byte) []byte {
		if b == nil {
			return nil
		}
		return append([]byte{}, *b...)
	}
	_, err := tx.Exec(ctx, "select taskengine.again_bytes($1, $2, $3, payload => $4, checkpoint => $5, result => $6)",
		t.ID.String(), int64(t.Version), e.at, bytes(e.payload), bytes(e.checkpoint), e.result)
	return err
}

// byEngine ends the attempt of ctx in x.
func (e ending) byEngine(ctx context.Context, x *postgres.Tx) error {
	if !e.again {
		return engine.FinishTx(ctx, x, e.result)
	}
	var options []task.AgainOption
	if e.payload != nil {
		options = append(options, task.WithPayload(*e.payload))
	}
	if e.checkpoint != nil {
		options = append(options, task.WithCheckpoint(*e.checkpoint))
	}
	return engine.AgainTx(ctx, x, e.result, e.at, options...)
}

// anEnding returns a random ending, which may not be possible.
func anEnding(r *rand.Rand) ending {
	some := func(most int, texts ...string) *[]byte {
		if r.IntN(3) == 0 {
			return nil
		}
		b := []byte(texts[r.IntN(len(texts))])
		if r.IntN(12) == 0 {
			b = make([]byte, most+r.IntN(2))
		}
		return &b
	}
	var e ending
	if b := some(largestResult, "", "done", "\x00\xff"); b != nil {
		e.result = *b
	}
	if e.again = r.IntN(3) > 0; !e.again {
		return e
	}
	offsets := []time.Duration{-100 * time.Hour, -time.Hour, -10 * time.Minute, -time.Millisecond, 0, time.Millisecond, 10 * time.Minute, 1000 * time.Hour}
	switch n := r.IntN(len(offsets) + 3); {
	case n < len(offsets):
		e.at = time.Now().Add(offsets[n]).Truncate(time.Microsecond).UTC()
	case n == len(offsets):
		e.at = time.Unix(0, 0).UTC()
	case n == len(offsets)+1:
		e.at = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
	default:
		e.at = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	e.payload = some(largestPayload, "", `{"partner": "ä"}`, `{"partner": 1.50}`, `{"partner": {}}`, `{}`, "{", "\xff")
	e.checkpoint = some(task.MaxCheckpoint, "", "so far")
	return e
}

const largestResult, largestPayload = 40, 60

// endingTypes returns types that keep done tasks for different times, with limits by every kind
// of value.
func endingTypes() policy.Set {
	set := types()
	set.Slots = 1
	for i, keep := range []time.Duration{0, 0, time.Microsecond, time.Minute, time.Hour, 25 * time.Hour, 7 * 24 * time.Hour, 500 * 24 * time.Hour, policy.Forever} {
		p := policy.DefaultType()
		p.Retention.Done, p.MaxResult, p.MaxPayload = keep, largestResult, largestPayload
		p.Timeout.Run = time.Hour
		if i%2 == 1 {
			p.Limits = []string{"partner", "tenant", "key", "order"}
			p.Unique.Remember = 30 * time.Hour
		}
		set.Types[fmt.Sprint("kept ", i)] = p
	}
	for name, per := range map[string]string{"partner": "payload.partner", "tenant": "headers.tenant.id", "key": "key", "order": "ordering_key"} {
		set.Limits[name] = policy.Limit{Name: name, Max: 100, Per: per}
	}
	return set
}

// aHistory returns the past attempts of a task that is about to start. Of half of them, the task asked to run again at
// once, again and again, and the engine delayed it more each time.
func aHistory(r *rand.Rand, now time.Time) []task.Attempt {
	history := make([]task.Attempt, []int{0, 1, 5, 11, 14, task.MaxHistory - 1, task.MaxHistory}[r.IntN(7)])
	slowed, earlier := r.IntN(2) == 0, 0
	if len(history) == task.MaxHistory {
		earlier = r.IntN(9) // the oldest are lost
	}
	next := now
	for i := len(history) - 1; i >= 0; i-- {
		a := &history[i]
		delay := time.Duration(r.IntN(100_000)) * time.Microsecond
		a.Outcome = []task.Outcome{task.Completed, task.Snoozed, task.Errored}[r.IntN(3)]
		if slowed {
			a.Outcome = []task.Outcome{task.Completed, task.Snoozed}[r.IntN(2)]
			delay = min(10*time.Millisecond<<(i+earlier), time.Minute) * 11 / 10
		}
		a.EndedAt = next.Add(-delay).UTC()
		a.StartedAt = a.EndedAt.Add(-time.Millisecond)
		a.Number, a.Node, next = uint32(i+1), strings.Repeat("ñ", r.IntN(4)), a.StartedAt
		if a.Outcome == task.Errored {
			a.Error = strings.Repeat("ö", r.IntN(4))
		}
	}
	return history
}

func aRow(r *rand.Rand, n int, now time.Time, typ string) *task.Task {
	t := &task.Task{
		ID: task.NewIDs([32]byte{byte(n)}).Next(now.Add([]time.Duration{0, -time.Hour, 30 * time.Minute, 2 * time.Hour}[r.IntN(4)])), Type: typ, Priority: uint8(r.IntN(10)),
		Payload: []byte(`{"partner": "first"}`), Headers: map[string]string{"tenant.id": "7", "a": "", "z\x00": "b"},
	}
	if r.IntN(2) == 0 {
		t.Key = fmt.Sprint("kéy ", n)
	}
	t.Shard = t.ID.Shard()
	if r.IntN(2) == 0 {
		t.OrderingKey = fmt.Sprint("örder ", n)
		t.Shard = task.ShardOf(t.OrderingKey)
	}
	t.Create(task.Submitted, now, time.Time{})
	t.ReadyAt = now.Add(-[]time.Duration{0, time.Second, time.Hour, 50 * time.Hour}[r.IntN(4)]).Truncate(time.Microsecond)
	t.ExpiresAt = []time.Time{{}, now.Add(time.Hour)}[r.IntN(2)]
	t.NextEventAt = t.ExpiresAt
	t.Version, t.Crashes, t.Attempt = uint64(1+r.IntN(5)), uint32(r.IntN(3)), uint32(r.IntN(7))
	t.Node = []string{"", "nöde-1"}[r.IntN(2)]
	t.History = aHistory(r, now)
	t.LastError = []string{"", "it failed"}[r.IntN(2)]
	t.Result = []byte([]string{"", "earlier"}[r.IntN(2)])
	t.Notes = task.NewNotes(task.Progress{}, []byte([]string{"", "kept"}[r.IntN(2)]))
	if r.IntN(2) == 0 {
		t.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 9, Done: 1, Reported: []byte{4, 0}}}}
	}
	return t
}

// An attempt that SQL ends leaves the row, the keys, the counts and the place in the tables that the engine leaves, just
// before or just after.
func TestEndsFromSQLMakeTheRowsOfTheEngine(t *testing.T) {
	url := server.Database(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	set := endingTypes()
	s := postgrestest.Open(t, url)
	var rows []*task.Task
	for n := range 40 {
		rows = append(rows, aRow(r, n, time.Now().Truncate(time.Microsecond), fmt.Sprint("kept ", n%len(set.Types))))
	}
	if _, err := s.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	ended, refused := 0, 0
	do := make(map[string]work)
	for name := range set.Types {
		do[name] = func(ctx context.Context, n *node, tk *task.Task) ([]byte, error) {
			if r.IntN(2) == 0 {
				if _, err := n.store.Note(ctx, task.Note{Ref: tk.Ref(), Progress: &task.Progress{Done: 3, Message: "half"}}); err != nil {
					t.Error(err)
				}
			}
			for range 8 {
				e := anEnding(r)
				sql := func(tx pgx.Tx, _ *postgres.Tx) error { return e.bySQL(ctx, tx, tk) }
				byEngine := func(_ pgx.Tx, x *postgres.Tx) error { return e.byEngine(ctx, x) }
				want, got, later, err := compareEnds(ctx, n, tk, sql, byEngine)
				if err != nil {
					t.Errorf("%s, %v: %v", tk.Type, e, err)
				}
				if got == nil {
					refused++
					continue
				}
				ended++
				if diff := want.diff(got); diff != "" && later.diff(got) != "" {
					t.Errorf("%s, %v, of a row with %d attempts: (-engine +SQL)\n%s", tk.Type, e, len(tk.History), diff)
				}
			}
			return nil, nil
		}
	}
	n := alone(t, url, set, do)
	for _, row := range rows {
		if err := n.WaitTasks(t.Context(), row.ID); err != nil {
			t.Fatal(err)
		}
	}
	if ended < 120 || refused < 15 {
		t.Errorf("%d ends were compared, and %d refusals", ended, refused)
	}
}

// compareEnds returns the rows after an end by SQL, and after ends by the engine just before and just after it; nil if an end
// is refused. In that time kept tasks may expire from the keys and counts, and on a slow machine the engine's table may
// be made so late that it puts the task elsewhere: therefore ends that differ are compared again.
func compareEnds(ctx context.Context, n *node, tk *task.Task, bySQL, byEngine func(pgx.Tx, *postgres.Tx) error) (want, got, later *left, err error) {
	for tries := 0; ; tries++ {
		_, _ = leaves(ctx, n, tk, byEngine) // the engine makes the table, and SQL does not
		var wantErr, gotErr, laterErr error
		want, wantErr = leaves(ctx, n, tk, byEngine)
		got, gotErr = leaves(ctx, n, tk, bySQL)
		later, laterErr = leaves(ctx, n, tk, byEngine) // the effects of an end depend on its time
		if (gotErr == nil) != (wantErr == nil) {
			return nil, nil, nil, fmt.Errorf("SQL says %v, and the engine %v", gotErr, wantErr)
		}
		if gotErr != nil || laterErr != nil {
			return nil, nil, nil, nil
		}
		if want.diff(got) == "" || later.diff(got) == "" || tries == 20 {
			return want, got, later, nil
		}
		select {
		case <-time.After(time.Duration(tries) * 50 * time.Millisecond): // 10 s in all
		case <-ctx.Done():
		}
	}
}

// left has the rows after the end of an attempt.
type left struct {
	now   int64
	row   map[string]any // as the tables have it; nil if there is none
	task  *task.Task
	other string // keys and counts
}

// leaves returns the rows of a task after fn in a transaction, which it rolls back.
func leaves(ctx context.Context, n *node, tk *task.Task, fn func(tx pgx.Tx, x *postgres.Tx) error) (*left, error) {
	var l left
	err := n.store.Within(ctx, n.store.Pool(), func(tx pgx.Tx, x *postgres.Tx) error {
		if err := fn(tx, x); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `
select to_jsonb(r) - 'history' || jsonb_build_object('history', length(r.history)), r.updated_at from (
	select *, null::bigint as ended_at, null::integer as keep, tableoid::regclass::text as part from taskengine.task
	union all
	select *, tableoid::regclass::text from taskengine.ended) r where id = $1`, tk.ID.String()).Scan(&l.row, &l.now)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `
select concat((select string_agg(k::text, '' order by k) from taskengine.key k),
	(select string_agg(concat_ws(' ', type, state, keep, since, n), '; ' order by type, state, keep, since) from (
		select type, state, keep, since, sum(n) as n from taskengine.tally group by 1, 2, 3, 4 having sum(n) <> 0) s))`).Scan(&l.other); err != nil {
			return err
		}
		l.task, err = x.Get(ctx, tk.ID)
		if errors.Is(err, task.ErrNotFound) {
			err = nil
		}
		return cmp.Or(err, errDeclined)
	})
	if !errors.Is(err, errDeclined) {
		return nil, err
	}
	return &l, nil
}

// diff compares the rows after two ends at different times: a time is the same, or as far from the end.
func (l *left) diff(other *left) string {
	a, b := maps.Clone(l.row), maps.Clone(other.row)
	for _, name := range []string{"ready_at", "next_event_at", "due_at", "expires_at", "started_at", "updated_at", "ended_at"} {
		x, isTime := a[name].(float64)
		y, isToo := b[name].(float64)
		if isTime && isToo && (x == y || int64(x)-l.now == int64(y)-other.now) {
			delete(a, name)
			delete(b, name)
		}
	}
	return gocmp.Diff(a, b) + gocmp.Diff(l.since(), other.since()) + gocmp.Diff(l.other, other.other)
}

// since returns the parts of the task that are no times of the row, with the end of its last attempt as if it had
// been in 1970.
func (l *left) since() *task.Task {
	if l.task == nil {
		return nil
	}
	c := l.task.Clone()
	c.ReadyAt, c.NextEventAt, c.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
	if n := len(c.History); n > 0 && c.History[n-1].EndedAt.UnixMicro() == l.now {
		c.History[n-1].EndedAt = time.Unix(0, 0)
	}
	return c
}
