//go:build !race

package postgres_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
	children   []task.ChildRequests
	signals    []string // the task waits for one of these, or for one of waits; nil for none
	waits      []task.ChildrenWait
	documents  []task.DocumentWrite
}

func (e ending) String() string {
	if !e.again {
		return fmt.Sprintf("finish with a result of %d bytes, %s", len(e.result), documentsText(e.documents))
	}
	return fmt.Sprintf("again at %v, payload %v, checkpoint %v, children %+v, waits for %q and %+v, %s", e.at, e.payload != nil, e.checkpoint != nil, e.children, e.signals, e.waits, documentsText(e.documents))
}

// bySQL ends the attempt of t in tx by the functions of the database.
func (e ending) bySQL(ctx context.Context, tx pgx.Tx, t *task.Task) error {
	if err := writeBySQL(ctx, tx, e.documents); err != nil {
		return err
	}
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
	var at *time.Time
	if !e.at.IsZero() {
		at = &e.at
	}
	args := []any{t.ID.String(), int64(t.Version), at, bytes(e.payload), bytes(e.checkpoint), e.result}
	call, more := "again", "at => $3"
	if e.signals != nil || e.waits != nil {
		call, more = "wait", "until => $3, signals => $7, waits => $8"
		args = append(args, e.signals, waitsAsJSON(e.waits))
	}
	if e.children != nil {
		args = append(args, asJSON(e.children))
		call, more = call+"_with_children", fmt.Sprintf("%s, children => $%d", more, len(args))
	}
	call = fmt.Sprintf("%s_bytes($1, $2, %s, payload => $4, checkpoint => $5, result => $6)", call, more)
	_, err := tx.Exec(ctx, "select taskengine."+call, args...)
	return err
}

// asJSON returns children as the functions of the database take them; nil if there are none.
func asJSON(sets []task.ChildRequests) map[string]any {
	if sets == nil {
		return nil
	}
	out := make(map[string]any)
	for _, set := range sets {
		children := make([]map[string]any, 0, len(set.Requests))
		for _, r := range set.Requests {
			c := map[string]any{"type": r.Type, "ordering_key": nil}
			if r.OrderingKey != "" {
				c["ordering_key"] = r.OrderingKey
			}
			if r.Payload != nil {
				c["payload"] = json.RawMessage(r.Payload)
			}
			if r.Priority != nil {
				c["priority"] = *r.Priority
			}
			if !r.At.IsZero() {
				c["at"] = r.At
			}
			if r.Headers != nil {
				c["headers"] = r.Headers
			}
			children = append(children, c)
		}
		out[set.Name] = children
	}
	return out
}

func waitsAsJSON(waits []task.ChildrenWait) []map[string]any {
	if waits == nil {
		return nil
	}
	out := make([]map[string]any, 0, len(waits))
	for _, w := range waits {
		of := map[string]any{"name": w.Name}
		if w.Count > 0 {
			of["count"] = w.Count
		}
		if w.OrFailed {
			of["or_failed"] = true
		}
		out = append(out, of)
	}
	return out
}

// byEngine ends the attempt of ctx in x.
func (e ending) byEngine(ctx context.Context, n *node, x *postgres.Tx) error {
	if !e.again {
		if err := n.WriteDocumentsTx(ctx, x, e.documents...); err != nil {
			return err
		}
		return engine.FinishTx(ctx, x, e.result)
	}
	options := []task.AgainOption{task.WithDocuments(e.documents...)}
	if e.payload != nil {
		options = append(options, task.WithPayload(*e.payload))
	}
	if e.checkpoint != nil {
		options = append(options, task.WithCheckpoint(*e.checkpoint))
	}
	for _, set := range e.children {
		options = append(options, task.WithChildren(set.Name, set.Requests...))
	}
	switch {
	case e.signals != nil && e.waits != nil:
		return engine.WaitForEitherTx(ctx, x, e.result, e.signals, e.waits, e.at, options...)
	case e.signals != nil:
		return engine.WaitTx(ctx, x, e.result, e.signals, e.at, options...)
	case e.waits != nil:
		return engine.WaitForChildrenTx(ctx, x, e.result, e.waits, e.at, options...)
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
	if r.IntN(2) == 0 {
		e.documents = someDocuments(r)
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
	if r.IntN(2) == 0 {
		e.children = someChildren(r)
	}
	switch r.IntN(4) {
	case 0:
		e.signals = someSignals(r)
	case 1:
		e.waits = someWaits(r)
	case 2:
		e.signals, e.waits = someSignals(r), someWaits(r)
	default:
		return e
	}
	if r.IntN(2) == 0 {
		e.at = time.Time{}
	}
	return e
}

// someChildren returns random children, in the order of names in which the server keeps a document. It may not be possible to add them.
func someChildren(r *rand.Rand) (sets []task.ChildRequests) {
	names := []string{"img", "page", "bündig", strings.Repeat("n", 100)}
	if r.IntN(20) == 0 {
		names[3] = []string{"", strings.Repeat("n", 101), "a\n"}[r.IntN(3)]
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	for _, name := range names {
		if r.IntN(2) == 0 {
			continue
		}
		set := task.ChildRequests{Name: name, Requests: []engine.Request{}}
		for range r.IntN(4) {
			c := engine.Request{Type: fmt.Sprint("kept ", r.IntN(9))}
			if (name == "bündig") != (r.IntN(30) == 0) {
				c.OrderingKey = fmt.Sprint("ö", r.IntN(3))
			}
			if n := r.IntN(12); n < 6 {
				c.Payload = []byte([]string{`{"partner": "ä"}`, `{"partner": 1.50}`, `{}`, `7`, `{"partner": {}}`, `"` + strings.Repeat("x", largestPayload-2+r.IntN(2)) + `"`}[n])
			}
			if r.IntN(3) == 0 {
				c.Priority, c.At = new(uint8(r.IntN(10))), time.Now().Add(time.Duration(1-2*r.IntN(2))*time.Hour).Truncate(time.Microsecond)
				c.Headers = map[string]string{"tenant.id": "8"}
			}
			if r.IntN(30) == 0 {
				c.Type = []string{"", "taskengine.relay"}[r.IntN(2)]
			}
			set.Requests = append(set.Requests, c)
		}
		sets = append(sets, set)
	}
	return sets
}

// someWaits returns random waits for children, which may not be possible.
func someWaits(r *rand.Rand) []task.ChildrenWait {
	waits := []task.ChildrenWait{}
	for _, name := range []string{"page", "bündig", "page", "none", ""} {
		if r.IntN(2) == 0 || name == "" && r.IntN(20) > 0 || len(waits) > 0 && name == "page" && r.IntN(10) > 0 {
			continue
		}
		waits = append(waits, task.ChildrenWait{Name: name, Count: uint32(r.IntN(4)), OrFailed: r.IntN(2) == 0})
	}
	return waits
}

// someSignals returns random names of signals, for which it may not be possible to wait.
func someSignals(r *rand.Rand) []string {
	names := []string{"päid"}
	for range r.IntN(2) * r.IntN(22) {
		names = append(names, fmt.Sprint("s", len(names)))
	}
	switch r.IntN(12) {
	case 0:
		names = []string{}
	case 1:
		names = append(names, []string{"", "taskengine.x", "a\n", strings.Repeat("n", 101)}[r.IntN(4)])
	}
	return names
}

// theSignals returns signals of a task: one that has woken it, some that it keeps, and the ids of earlier ones.
func theSignals(r *rand.Rand) *task.Signals {
	of := func(n int) task.Signal {
		s := task.Signal{ID: task.ID{9, byte(n)}, Name: []string{"päid", "s3", "other"}[r.IntN(3)], At: time.Now().Truncate(time.Microsecond).UTC()}
		if r.IntN(2) == 0 {
			s.Data = []byte("data")
		}
		return s
	}
	var s task.Signals
	if s.Wake.By = task.WakeBy(r.IntN(5)); s.Wake.By == task.BySignal {
		s.Wake.Signal = of(0)
	}
	for n := range r.IntN(4) {
		s.Kept = append(s.Kept, of(n+1))
	}
	for n := range []int{0, 2, task.MaxSeen}[r.IntN(3)] {
		s.Seen = append(s.Seen, task.ID{8, byte(n)})
	}
	return task.NewSignals(s)
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
		if i%3 == 0 {
			p.Timeout.Queue = time.Minute
		}
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
		t.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 9, Done: 1, Reported: []byte{4, 0}}, {Name: "bündig", Added: 1, Failed: 1, Reported: []byte{1}, Shards: []byte{77}}}}
	}
	t.Signals = theSignals(r)
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
				byEngine := func(_ pgx.Tx, x *postgres.Tx) error { return e.byEngine(ctx, n, x) }
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
	writeSome(t, s)
	n := alone(t, url, set, do)
	for _, row := range rows {
		if err := n.WaitTasks(t.Context(), row.ID); err != nil {
			t.Fatal(err)
		}
	}
	if ended < 90 || refused < 15 {
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
	other string           // keys and counts
	born  []*task.Task     // its children that there are
	wrote []map[string]any // the rows of documents, as the tables have them
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
		if l.wrote, err = documentsIn(ctx, tx); err != nil {
			return err
		}
		l.task, err = x.Get(ctx, tk.ID)
		if errors.Is(err, task.ErrNotFound) {
			return errDeclined
		}
		if err == nil && l.task.Children != nil {
			l.born, err = childrenIn(ctx, x, l.task)
		}
		return cmp.Or(err, errDeclined)
	})
	if !errors.Is(err, errDeclined) {
		return nil, err
	}
	return &l, nil
}

// childrenIn returns the children of t that exist, without fields that differ from call to call.
func childrenIn(ctx context.Context, x *postgres.Tx, t *task.Task) (born []*task.Task, err error) {
	for i := range t.Children.Sets {
		for index := range t.Children.Sets[i].Added {
			child, err := x.Get(ctx, t.Children.Sets[i].Child(t.ID, index, -1))
			if errors.Is(err, task.ErrNotFound) {
				continue
			} else if err != nil {
				return nil, err
			}
			made := child.CreatedAt
			for _, at := range []*time.Time{&child.CreatedAt, &child.UpdatedAt, &child.ReadyAt, &child.NextEventAt} {
				if gap := at.Sub(made); !at.IsZero() && gap > -time.Minute && gap < 2*time.Minute {
					*at = time.Unix(0, 0).Add(gap)
				}
			}
			child.Seq = 0
			born = append(born, child)
		}
	}
	return born, nil
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
	return gocmp.Diff(a, b) + gocmp.Diff(l.since(), other.since()) + gocmp.Diff(l.other, other.other) + gocmp.Diff(l.born, other.born) + gocmp.Diff(l.wrote, other.wrote)
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
